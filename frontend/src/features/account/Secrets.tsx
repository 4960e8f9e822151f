import { Group, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LockKeyhole, Plus } from "lucide-react";
import { useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { ApiProblem } from "@/api/problem";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { QueryCard } from "@/components/QueryCard";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { deleteSecret, putSecret, type Secret, secretsQuery } from "./secrets";
import classes from "@/components/table.module.css";

const EXAMPLE = "WANDB_API_KEY";

/** Secrets that jobs receive as environment variables. */
export function SecretsPage() {
  const { t } = useTranslation();
  const query = useQuery(secretsQuery);
  /** Name of the secret in the dialog; empty for a new secret. */
  const [edited, setEdited] = useState<string | null>(null);
  return (
    <>
      <Group justify="space-between" align="flex-start" mb="md">
        <Text size="sm" c="dimmed" maw={560}>
          {t("Keys and passwords for your jobs. A job that lists a secret gets it as an environment variable. Values are not shown in the portal.")}
        </Text>
        <ChangeButton size="sm" leftSection={<Plus size={16} />} onClick={() => setEdited("")} data-testid="secret-new">
          {t("New secret")}
        </ChangeButton>
      </Group>
      <QueryCard
        query={query}
        items={query.data?.items}
        rows={3}
        empty={
          <EmptyState icon={LockKeyhole} title={t("No secrets")}>
            <Trans i18nKey="Create a secret and list it in a job file: <code>secrets: [WANDB_API_KEY]</code>" components={{ code: <code /> }} />
          </EmptyState>
        }
      >
        {(secrets) => <SecretTable secrets={secrets} onReplace={setEdited} />}
      </QueryCard>
      {edited !== null && <SecretModal name={edited} onClose={() => setEdited(null)} />}
    </>
  );
}

function SecretTable({ secrets, onReplace }: { secrets: readonly Secret[]; onReplace: (name: string) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [deleting, setDeleting] = useState<string | null>(null);
  const remove = useMutation({
    mutationFn: deleteSecret,
    onSuccess: () => notifyDone(t("Secret deleted.")),
    onError: (error) => notifyProblem(t("Could not delete the secret"), error),
    onSettled: () => {
      setDeleting(null);
      void cache.invalidateQueries({ queryKey: secretsQuery.queryKey });
    },
  });
  const columns: Column<Secret>[] = [
    { header: t("Name"), className: classes.name, cell: ({ name }) => <strong className="mono">{name}</strong> },
    { header: t("Created"), cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    { header: t("Changed"), cell: ({ updated_at }) => <RelativeTime at={updated_at} /> },
  ];
  return (
    <>
      <DataTable
        columns={columns}
        rows={secrets}
        rowKey={({ name }) => name}
        rowTestId="secret-row"
        actions={({ name }) => (
          <>
            <ChangeButton variant="subtle" size="compact-sm" onClick={() => onReplace(name)} aria-label={t("Replace {{name}}", { name })}>
              {t("Replace")}
            </ChangeButton>
            <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setDeleting(name)} aria-label={t("Delete {{name}}", { name })}>
              {t("Delete")}
            </ChangeButton>
          </>
        )}
      />
      <Confirm
        opened={deleting !== null}
        title={t("Delete {{name}}?", { name: deleting ?? "" })}
        action={t("Delete")}
        busy={remove.isPending}
        onClose={() => setDeleting(null)}
        onConfirm={() => {
          if (deleting !== null) remove.mutate(deleting);
        }}
      >
        {t("Running jobs keep the secret. Pending jobs that use it fail. This cannot be undone.")}
      </Confirm>
    </>
  );
}

function SecretModal({ name: existingName, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [name, setName] = useState(existingName);
  const [value, setValue] = useState("");
  const save = useMutation({
    mutationFn: () => putSecret(name.trim(), value),
    onSuccess: () => {
      notifyDone(t("Secret saved."));
      void cache.invalidateQueries({ queryKey: secretsQuery.queryKey });
      onClose();
    },
  });
  const problems = save.error instanceof ApiProblem ? save.error.problems : [];
  const nameProblem = problems.find((problem) => problem.field.endsWith("name"))?.message;
  return (
    <FormDialog
      title={existingName === "" ? t("New secret") : t("Replace {{name}}", { name: existingName })}
      action={t("Save secret")}
      testId="secret-save"
      busy={save.isPending}
      disabled={name.trim() === "" || value === ""}
      error={nameProblem === undefined ? save.error : null}
      onClose={onClose}
      onSubmit={save.mutate}
    >
      <TextInput
        label={t("Name")}
        description={t("Name of the environment variable in jobs.")}
        placeholder={EXAMPLE}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={nameProblem}
        maxLength={128}
        disabled={existingName !== ""}
        required
        spellCheck={false}
        autoCapitalize="characters"
        data-autofocus={existingName === "" || undefined}
        data-testid="secret-name"
      />
      <Textarea
        label={t("Value")}
        description={t("Stored encrypted and not shown again.")}
        value={value}
        onChange={(event) => setValue(event.currentTarget.value)}
        maxLength={32_768}
        minRows={2}
        maxRows={8}
        autosize
        required
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="none"
        data-autofocus={existingName !== "" || undefined}
        data-testid="secret-value"
      />
    </FormDialog>
  );
}
