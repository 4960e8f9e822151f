import { ActionIcon, Button, Menu, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Bookmark, BookmarkPlus, ChevronDown, Columns3, Trash2 } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { type JobViews, jobViewsQuery, type SavedView, useSaveJobViews } from "@/api/preferences";
import { notifyDone, notifyProblem } from "@/components/notify";
import { COLUMNS, columnsOf } from "@/lib/job-columns";
import { fromSearch, type JobFilters, toSearch } from "@/lib/job-filters";
import classes from "@/pages/Jobs.module.css";

interface Props {
  filters: JobFilters;
  me: string;
  columns: readonly string[];
  onColumns: (columns: string[]) => void;
  onView: (filters: JobFilters, columns: string[]) => void;
}

const NONE: JobViews = { columns: [], views: [] };

/** Which columns the table has, and views that were kept under a name. */
export function ViewsMenu({ filters, me, columns, onColumns, onView }: Props) {
  const { t } = useTranslation();
  const views = useQuery(jobViewsQuery).data ?? NONE;
  const save = useSaveJobViews((error) => notifyProblem(t("The view was not saved"), error));
  const shown = columnsOf(columns, filters.all === true).map((column) => column.name);

  const toggle = (name: string) => {
    const next = shown.includes(name) ? shown.filter((each) => each !== name) : COLUMNS.map((column) => column.name as string).filter((each) => each === name || shown.includes(each));
    onColumns(next);
    save.mutate((old) => ({ ...old, columns: next }));
  };
  const keep = (name: string) => {
    const view = {
      name,
      columns: [...shown],
      sort: filters.sort ?? "created",
      descending: filters.order !== "asc",
      search: toSearch(filters, me),
    } as SavedView;
    save.mutate((old) => ({ ...old, views: [...old.views.filter((each) => each.name !== name), view] }), { onSuccess: () => notifyDone(t("The view {{name}} is saved.", { name })) });
  };
  return (
    <>
      <Menu position="bottom-end" width={260} closeOnItemClick={false}>
        <Menu.Target>
          <Button variant="default" leftSection={<Bookmark size={16} />} rightSection={<ChevronDown size={13} />} data-testid="jobs-views">
            {t("Views")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {views.views.length === 0 && <div className={classes.menuNote}>{t("A view keeps filters, order and columns under a name.")}</div>}
          {views.views.map((view) => (
            <div key={view.name} className={classes.view}>
              <Menu.Item onClick={() => onView(fromSearch(view.search, view.sort, view.descending, me), view.columns)} closeMenuOnClick>
                {view.name}
              </Menu.Item>
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={t("Delete the view {{name}}", { name: view.name })}
                onClick={() => save.mutate((old) => ({ ...old, views: old.views.filter((each) => each.name !== view.name) }))}
              >
                <Trash2 size={15} />
              </ActionIcon>
            </div>
          ))}
          <Menu.Divider />
          <SaveView onSave={keep} />
        </Menu.Dropdown>
      </Menu>
      <Menu position="bottom-end" width={220} closeOnItemClick={false}>
        <Menu.Target>
          <Button variant="default" className={classes.columns ?? ""} leftSection={<Columns3 size={16} />} data-testid="jobs-columns">
            {t("Columns")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {COLUMNS.slice(1).map((column) => (
            <Menu.CheckboxItem key={column.name} checked={shown.includes(column.name)} onChange={() => toggle(column.name)}>
              {t(column.label)}
            </Menu.CheckboxItem>
          ))}
          <Menu.Divider />
          <Menu.Item
            onClick={() => {
              onColumns([]);
              save.mutate((old) => ({ ...old, columns: [] }));
            }}
          >
            {t("The usual columns")}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

function SaveView({ onSave }: { onSave: (name: string) => void }) {
  const { t } = useTranslation();
  const [name, setName] = useState("");
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (name.trim() === "") return;
    onSave(name.trim());
    setName("");
  };
  return (
    <form className={classes.saveView} onSubmit={submit}>
      <TextInput
        size="xs"
        aria-label={t("Name of the view")}
        placeholder={t("Save this view as")}
        maxLength={60}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        // Letters are the name's here, not the menu's.
        onKeyDown={(event) => event.key !== "Escape" && event.stopPropagation()}
        data-testid="jobs-view-name"
      />
      <ActionIcon type="submit" variant="light" size={30} aria-label={t("Save")} disabled={name.trim() === ""}>
        <BookmarkPlus size={16} />
      </ActionIcon>
    </form>
  );
}
