import { Button, Group, Text, TextInput } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Project, RetentionInput } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { FormProblem } from "@/components/FormProblem";
import { formatDuration } from "@/lib/time";
import classes from "./Projects.module.css";

type Keep = number | "forever" | null | undefined;
const FIELDS = ["keep_jobs", "keep_failed_jobs"] as const;

interface Props {
  project: Project;
  busy: boolean;
  error: Error | null;
  onSave: (times: RetentionInput) => void;
}

/** How long ended jobs of the project are kept; a blank field is the site's time. */
export function RetentionForm({ project, busy, error, onSave }: Props) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const site = me.platform.retention;
  const [form, setForm] = useState({ keep_jobs: text(project.retention?.keep_jobs), keep_failed_jobs: text(project.retention?.keep_failed_jobs) });
  const unchanged = FIELDS.every((name) => form[name].trim() === text(project.retention?.[name]));
  const shown = (keep: Keep) => (typeof keep === "number" ? formatDuration(keep) : t("forever"));
  const labels = { keep_jobs: t("Keep ended jobs for"), keep_failed_jobs: t("Keep failed jobs for") };
  const defaults = { keep_jobs: shown(site.keep_jobs), keep_failed_jobs: shown(site.keep_failed_jobs ?? site.keep_jobs) };
  return (
    <div className={classes.form}>
      <FormProblem error={error} />
      {FIELDS.map((name) => (
        <TextInput
          key={name}
          label={labels[name]}
          placeholder={defaults[name]}
          value={form[name]}
          maxLength={32}
          onChange={(event) => {
            const value = event.currentTarget.value;
            setForm((old) => ({ ...old, [name]: value }));
          }}
        />
      ))}
      <Text size="xs" c="dimmed">
        {t("For example, 30d or forever. Leave blank for the default of the platform. Failed jobs are never deleted earlier than other jobs.")}
      </Text>
      <Group>
        <Button
          disabled={unchanged}
          loading={busy}
          onClick={() => onSave({ keep_jobs: form.keep_jobs.trim() || null, keep_failed_jobs: form.keep_failed_jobs.trim() || null })}
          data-testid="retention-save"
        >
          {t("Save")}
        </Button>
      </Group>
    </div>
  );
}

/** A time in the platform's syntax, such as 30d. */
function text(keep: Keep): string {
  if (typeof keep !== "number") return keep ?? "";
  return keep % 86_400 === 0 ? `${keep / 86_400}d` : `${keep}s`;
}
