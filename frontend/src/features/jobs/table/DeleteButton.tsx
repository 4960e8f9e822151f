import { Button, Tooltip } from "@mantine/core";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { useJobActions } from "@/hooks/use-job-actions";
import { nameOfJob } from "@/lib/describe";
import { isTerminal } from "@/lib/states";
import { formatBytes } from "@/lib/units";

/** Deletes the job after a confirmation. While that is impossible it is disabled and its tooltip tells why. */
export function DeleteButton({ job }: { job: Job }) {
  const { t } = useTranslation();
  const { remove } = useJobActions(job);
  const [confirming, setConfirming] = useState(false);
  const ended = isTerminal(job.state);
  if (job.array_job_id !== null || (ended && !job.actions.includes("delete") && job.delete_requested_at === null)) return null;
  const reason = !ended ? t("Only a job that has ended can be deleted. Cancel it first.") : job.delete_requested_at !== null ? t("The job is being deleted.") : null;
  return (
    <>
      <Tooltip label={reason} disabled={reason === null} multiline maw={280}>
        <Button
          variant="default"
          size="sm"
          leftSection={<Trash2 size={15} />}
          data-disabled={reason !== null || undefined}
          aria-disabled={reason !== null}
          onClick={() => reason === null && setConfirming(true)}
          data-testid="job-delete"
        >
          {t("Delete")}
        </Button>
      </Tooltip>
      <Confirm
        opened={confirming}
        title={t("Delete {{name}}?", { name: nameOfJob(job) })}
        action={t("Delete")}
        keep={t("Keep")}
        busy={remove.isPending}
        onClose={() => setConfirming(false)}
        onConfirm={() => remove.mutate(undefined, { onSettled: () => setConfirming(false) })}
      >
        {job.folder_bytes !== null && `${t("Its folder takes {{size}}.", { size: formatBytes(job.folder_bytes) })} `}
        {t("The log, the metrics and the job folder with its checkpoints are deleted. This cannot be undone. Usage stays counted.")}
      </Confirm>
    </>
  );
}
