import { Button, Group, Select, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { FolderPlus, UserCheck, UserX, X } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { changeUser } from "@/api/actions";
import { messageOf } from "@/api/problem";
import { findProjectsQuery, projectKeys, putMember } from "@/api/projects";
import { keys } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import classes from "@/components/Jobs.module.css";

interface Change {
  /** What is done to one user. */
  each: (name: string) => Promise<unknown>;
  done: (count: number) => string;
}

/** Actions for the selected users, one after another. Those that failed stay selected. */
export function UserSelection({ names, onSelect }: { names: readonly string[]; onSelect: (names: ReadonlySet<string>) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [dialog, setDialog] = useState<"disable" | "enable" | "project" | null>(null);
  const close = () => setDialog(null);
  const run = useMutation({
    mutationFn: async ({ each, done }: Change) => {
      const failed: { name: string; error: unknown }[] = [];
      for (const name of names) {
        try {
          await each(name);
        } catch (error) {
          failed.push({ name, error });
        }
      }
      return { failed, message: done(names.length - failed.length) };
    },
    onSuccess: ({ failed, message }) => {
      const [first] = failed;
      if (first) notifyProblem(t("{{count}} users were not changed", { count: failed.length }), new Error(`${first.name}: ${messageOf(first.error)}`));
      if (failed.length < names.length) notifyDone(message);
      onSelect(new Set(failed.map(({ name }) => name)));
      close();
    },
    onSettled: () => {
      for (const queryKey of [keys.users, projectKeys.all]) void cache.invalidateQueries({ queryKey });
    },
  });
  const count = names.length;
  return (
    <div className={classes.selection} role="region" aria-label={t("Selection")} data-testid="users-selection">
      <Text size="sm" fw={600} role="status">
        {t("{{count}} selected", { count })}
      </Text>
      <Group gap="xs" ml="auto">
        <ChangeButton size="xs" variant="default" leftSection={<FolderPlus size={15} />} onClick={() => setDialog("project")} data-testid="users-add">
          {t("Add to project")}
        </ChangeButton>
        <ChangeButton size="xs" variant="default" leftSection={<UserCheck size={15} />} onClick={() => setDialog("enable")} data-testid="users-enable">
          {t("Enable")}
        </ChangeButton>
        <ChangeButton size="xs" color="red" variant="light" leftSection={<UserX size={15} />} onClick={() => setDialog("disable")} data-testid="users-disable">
          {t("Disable")}
        </ChangeButton>
        <Button size="xs" variant="subtle" color="gray" leftSection={<X size={15} />} onClick={() => onSelect(new Set())}>
          {t("Clear selection")}
        </Button>
      </Group>
      <Confirm
        opened={dialog === "disable"}
        title={t("Disable {{count}} accounts?", { count })}
        action={t("Disable accounts")}
        busy={run.isPending}
        onClose={close}
        onConfirm={() => run.mutate({ each: (name) => changeUser(name, { disabled: true }), done: (changed) => t("{{count}} accounts disabled.", { count: changed }) })}
      >
        {t("Their users are logged out and cannot log in. Their sessions end; their jobs continue.")}
        <Names names={names} />
      </Confirm>
      <Confirm
        opened={dialog === "enable"}
        title={t("Enable {{count}} accounts?", { count })}
        action={t("Enable accounts")}
        busy={run.isPending}
        onClose={close}
        onConfirm={() => run.mutate({ each: (name) => changeUser(name, { disabled: false }), done: (changed) => t("{{count}} accounts enabled.", { count: changed }) })}
      >
        {t("Their users can log in again.")}
        <Names names={names} />
      </Confirm>
      {dialog === "project" && (
        <AddToProject
          names={names}
          busy={run.isPending}
          onClose={close}
          onAdd={(project) => run.mutate({ each: (name) => putMember(project, name, {}), done: (changed) => t("{{count}} users are members of {{project}}.", { count: changed, project }) })}
        />
      )}
    </div>
  );
}

function AddToProject({ names, busy, onClose, onAdd }: { names: readonly string[]; busy: boolean; onClose: () => void; onAdd: (project: string) => void }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [q] = useDebouncedValue(text.trim(), 250);
  const found = useQuery(findProjectsQuery(q)).data?.items ?? [];
  const [project, setProject] = useState<string | null>(null);
  const options = found.map(({ name, title }) => ({ value: name, label: title === "" ? name : `${title} (${name})` }));
  return (
    <FormDialog
      title={t("Add {{count}} users to a project", { count: names.length })}
      action={t("Add to project")}
      testId="users-add-submit"
      busy={busy}
      disabled={project === null}
      error={null}
      onClose={onClose}
      onSubmit={() => project !== null && onAdd(project)}
    >
      <Select
        label={t("Project")}
        description={t("The users become members; managers of the project keep their role.")}
        placeholder={t("Name or title")}
        data={options}
        value={project}
        searchable
        // The platform searches.
        filter={({ options: all }) => all}
        onSearchChange={setText}
        onChange={setProject}
        nothingFoundMessage={t("No matching projects")}
        data-autofocus
        data-testid="users-project"
      />
      <Names names={names} />
    </FormDialog>
  );
}

function Names({ names }: { names: readonly string[] }) {
  return (
    <Text size="sm" c="dimmed" mt="xs" mah={120} style={{ overflowY: "auto" }} tabIndex={0}>
      {names.join(", ")}
    </Text>
  );
}
