import { Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { askForTime, type Project, projectKeys, setProjectEnd } from "@/api/projects";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone } from "@/components/notify";
import { dayAhead, dayInput } from "./projects";

/** Extends a project: administrators set the end date, managers request it. */
export function TimeModal({ project, admin, onClose }: { project: Project; admin: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  const name = project.name;
  const extend = useMutation({
    mutationFn: () => {
      const end = `${until}T00:00:00Z`;
      return admin ? setProjectEnd(name, "*", end) : askForTime(name, end, reason.trim());
    },
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(admin ? t("{{name}} extended.", { name }) : t("Extension requested. An administrator must approve it."));
      onClose();
    },
  });
  const earliest = [dayAhead(new Date(), 1), dayInput(project.expires_at)].sort().at(-1) ?? "";
  return (
    <FormDialog
      title={t("Extend {{name}}", { name })}
      action={admin ? t("Extend project") : t("Request extension")}
      testId="time-yes"
      busy={extend.isPending}
      disabled={until === ""}
      error={extend.error}
      onClose={onClose}
      onSubmit={extend.mutate}
    >
      <TextInput
        type="date"
        label={t("End date")}
        value={until}
        min={earliest}
        onChange={(event) => setUntil(event.currentTarget.value)}
        required
        data-autofocus
      />
      {!admin && (
        <Textarea
          label={t("Reason")}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          autosize
          minRows={2}
          maxLength={2_000}
        />
      )}
    </FormDialog>
  );
}
