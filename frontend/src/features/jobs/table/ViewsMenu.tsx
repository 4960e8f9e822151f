import { ActionIcon, Button, Divider, Menu, Popover, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Bookmark, BookmarkPlus, ChevronDown, Columns3, Trash2 } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { type JobViews, jobViewsQuery, type SavedView, useSaveJobViews } from "@/api/preferences";
import { notifyDone, notifyProblem } from "@/components/notify";
import { useRefusal } from "@/hooks/use-refusal";
import { type JobFilters, toSearch } from "@/lib/job-filters";
import { fromSearch } from "@/lib/job-views";
import { COLUMNS, columnsOf } from "./job-columns";
import classes from "@/components/Jobs.module.css";

interface Props {
  filters: JobFilters;
  me: string;
  columns: readonly string[];
  onColumns: (columns: string[]) => void;
  onView: (filters: JobFilters, columns: string[]) => void;
}

const NO_VIEWS: JobViews = { columns: [], views: [] };

/** Menus for the saved views and the columns of the table. */
export function ViewsMenu({ filters, me, columns, onColumns, onView }: Props) {
  const { t } = useTranslation();
  const refusal = useRefusal();
  const [opened, setOpened] = useState(false);
  const views = useQuery(jobViewsQuery).data ?? NO_VIEWS;
  const save = useSaveJobViews((error) => notifyProblem(t("Could not save the view"), error));
  const visible = columnsOf(columns, filters.all === true).map((column) => column.name);

  const toggle = (name: string) => {
    const next = visible.includes(name) ? visible.filter((column) => column !== name) : COLUMNS.map((column) => column.name as string).filter((column) => column === name || visible.includes(column));
    onColumns(next);
    if (refusal === null) save.mutate((old) => ({ ...old, columns: next }));
  };
  const saveView = (name: string) => {
    const view = {
      name,
      columns: [...visible],
      sort: filters.sort ?? "created",
      descending: filters.order !== "asc",
      search: toSearch(filters, me),
    } as SavedView;
    save.mutate((old) => ({ ...old, views: [...old.views.filter((entry) => entry.name !== name), view] }), { onSuccess: () => notifyDone(t("View {{name}} saved.", { name })) });
  };
  return (
    <>
      {/* Not a menu: a menu holds choices only, and this one has a field and buttons. */}
      <Popover position="bottom-end" width={260} shadow="md" opened={opened} onChange={setOpened} trapFocus returnFocus>
        <Popover.Target>
          <Button
            variant="default"
            leftSection={<Bookmark size={16} />}
            rightSection={<ChevronDown size={13} />}
            onClick={() => setOpened(!opened)}
            data-testid="jobs-views"
          >
            {t("Views")}
          </Button>
        </Popover.Target>
        <Popover.Dropdown p={4} aria-label={t("Views")}>
          {views.views.length === 0 && <div className={classes.menuNote}>{t("Views store filters, sort order and columns.")}</div>}
          {views.views.map((view) => (
            <div key={view.name} className={classes.view}>
              <Button
                variant="subtle"
                color="gray"
                size="compact-md"
                fw={400}
                flex={1}
                justify="flex-start"
                onClick={() => {
                  setOpened(false);
                  onView(fromSearch(view.search, view.sort, view.descending, me), view.columns);
                }}
              >
                {view.name}
              </Button>
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={t("Delete view {{name}}", { name: view.name })}
                title={refusal ?? undefined}
                disabled={refusal !== null}
                onClick={() => save.mutate((old) => ({ ...old, views: old.views.filter((entry) => entry.name !== view.name) }))}
              >
                <Trash2 size={15} />
              </ActionIcon>
            </div>
          ))}
          <Divider my={4} />
          <SaveView onSave={saveView} />
        </Popover.Dropdown>
      </Popover>
      <Menu position="bottom-end" width={220} closeOnItemClick={false}>
        <Menu.Target>
          <Button variant="default" className={classes.columns ?? ""} leftSection={<Columns3 size={16} />} data-testid="jobs-columns">
            {t("Columns")}
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {COLUMNS.slice(1).map((column) => (
            <Menu.CheckboxItem key={column.name} checked={visible.includes(column.name)} onChange={() => toggle(column.name)}>
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
            {t("Reset columns")}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

function SaveView({ onSave }: { onSave: (name: string) => void }) {
  const { t } = useTranslation();
  const refusal = useRefusal();
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
        aria-label={t("View name")}
        placeholder={t("Save view as")}
        maxLength={60}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        data-testid="jobs-view-name"
      />
      <ActionIcon type="submit" variant="light" size={30} aria-label={t("Save")} title={refusal ?? undefined} disabled={refusal !== null || name.trim() === ""}>
        <BookmarkPlus size={16} />
      </ActionIcon>
    </form>
  );
}
