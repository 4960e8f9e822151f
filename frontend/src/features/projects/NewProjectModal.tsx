import { Text, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createProject, projectKeys } from "@/api/projects";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone } from "@/components/notify";
import { useProblems } from "@/hooks/use-problems";
import { dayAhead, fromDayInput } from "./projects";

export function NewProjectModal({ admin, me, onClose }: { admin: boolean; me: string; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [form, setForm] = useState({ name: "", title: "", description: "", reason: "", end: "", manager: me });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  const create = useMutation({
    mutationFn: () =>
      createProject({
        name: form.name.trim(),
        title: form.title.trim(),
        description: form.description.trim(),
        reason: form.reason.trim() || null,
        expires_at: fromDayInput(form.end),
        ...(admin && form.manager.trim() !== "" && { manager: form.manager.trim() }),
      }),
    onSuccess: (project) => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      void cache.invalidateQueries({ queryKey: ["me"] });
      notifyDone(
        project.state === "requested"
          ? t("{{name}} requested. An administrator must approve it.", { name: project.name })
          : t("{{name}} created.", { name: project.name }),
      );
      void navigate({ to: "/projects/$name", params: { name: project.name } });
    },
  });
  const { errorOf, hasOtherErrors } = useProblems(create.error, ["name", "title", "description", "reason", "expires_at", "manager"]);
  return (
    <FormDialog
      title={t("New project")}
      action={admin ? t("Create project") : t("Request project")}
      testId="project-create"
      busy={create.isPending}
      disabled={form.name.trim() === ""}
      error={hasOtherErrors ? create.error : null}
      onClose={onClose}
      onSubmit={create.mutate}
    >
      {!admin && (
        <Text size="sm" c="dimmed">
          {t("You become its manager: you can invite members, set limits and view usage. Approval by an administrator may be required.")}
        </Text>
      )}
      <TextInput
        label={t("Name")}
        description={t("Lowercase letters, digits and . _ -. Cannot be changed later.")}
        value={form.name}
        error={errorOf("name")}
        onChange={(event) => set({ name: event.currentTarget.value })}
        autoCapitalize="none"
        spellCheck={false}
        autoComplete="off"
        maxLength={40}
        required
        data-autofocus
      />
      <TextInput
        label={t("Title")}
        value={form.title}
        error={errorOf("title")}
        onChange={(event) => set({ title: event.currentTarget.value })}
        maxLength={200}
      />
      <Textarea
        label={t("Description")}
        value={form.description}
        error={errorOf("description")}
        onChange={(event) => set({ description: event.currentTarget.value })}
        autosize
        minRows={2}
        maxRows={6}
        maxLength={2_000}
      />
      {!admin && (
        <Textarea
          label={t("Reason")}
          description={t("Shown to the administrator who approves it.")}
          value={form.reason}
          error={errorOf("reason")}
          onChange={(event) => set({ reason: event.currentTarget.value })}
          autosize
          minRows={2}
          maxRows={6}
          maxLength={2_000}
        />
      )}
      {admin && (
        <TextInput
          label={t("Manager")}
          description={t("User name of the first member, who can add others. Leave blank for a project without members.")}
          value={form.manager}
          error={errorOf("manager")}
          onChange={(event) => set({ manager: event.currentTarget.value })}
          autoCapitalize="none"
          spellCheck={false}
          data-testid="project-manager"
        />
      )}
      <TextInput
        type="date"
        label={t("End date")}
        description={t("From this date, the project accepts no new jobs. Leave blank for no end date.")}
        value={form.end}
        min={dayAhead(new Date(), 1)}
        error={errorOf("expires_at")}
        onChange={(event) => set({ end: event.currentTarget.value })}
      />
    </FormDialog>
  );
}
