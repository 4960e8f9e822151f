import { Button, Tooltip } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Trash2 } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { countEnded, deleteJobs, deleteMatching } from "@/api/actions";
import { keys } from "@/api/queries";
import type { DeleteResults, Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";
import type { JobSearch } from "@/lib/job-filters";
import { isTerminal } from "@/lib/states";
import { formatBytes } from "@/lib/units";

/** The maximum number of jobs in one request. */
const MAX_JOBS = 1_000;

interface Props {
  jobs: readonly Job[];
  search: JobSearch;
  /** Whether all matching jobs are selected, not only `jobs`. */
  allMatching: boolean;
  onDone: () => void;
}

type DeleteRequest = { kind: "ids"; ids: string[]; count: number; bytes: number } | { kind: "matching"; count: number };

/** Deletes the selected jobs that have ended, after a confirmation. */
export function DeleteSelection({ jobs, search, allMatching, onDone }: Props) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [request, setRequest] = useState<DeleteRequest | null>(null);
  const ended = jobs.filter((job) => isTerminal(job.state) && job.array_job_id === null && job.delete_requested_at === null);
  const impossible = !allMatching && ended.length === 0;

  const failed = (error: unknown) => notifyProblem(t("Could not delete the jobs"), error);
  const countMatching = useMutation({
    mutationFn: () => countEnded(search),
    onSuccess: (count) => setRequest({ kind: "matching", count }),
    onError: failed,
  });
  const remove = useMutation({
    mutationFn: (wish: DeleteRequest) => (wish.kind === "ids" ? deleteJobs(wish.ids) : deleteMatching(search, wish.count)),
    onSuccess: (results) => {
      report(results);
      onDone();
    },
    onError: failed,
    onSettled: () => {
      setRequest(null);
      void cache.invalidateQueries({ queryKey: keys.lists });
    },
  });
  const report = ({ requested, items }: DeleteResults) => {
    const failures = items.filter((item) => item.outcome !== "requested");
    if (failures[0]) notifyProblem(t("{{count}} jobs were not deleted", { count: failures.length }), new Error(failures[0].reason ?? ""));
    if (requested > 0) notifyDone(t("Deleting {{count}} jobs", { count: requested }));
  };
  const start = () => {
    if (impossible) return;
    if (allMatching) countMatching.mutate();
    else setRequest({ kind: "ids", ids: ended.map((job) => job.id), count: ended.length, bytes: ended.reduce((sum, job) => sum + (job.folder_bytes ?? 0), 0) });
  };
  const overLimit = request !== null && request.count > MAX_JOBS;
  return (
    <>
      <Tooltip label={t("None of the selected jobs has ended. Cancel them first.")} disabled={!impossible} multiline maw={280}>
        <Button
          size="xs"
          color="red"
          variant="light"
          leftSection={<Trash2 size={14} />}
          data-disabled={impossible || undefined}
          aria-disabled={impossible}
          loading={countMatching.isPending}
          onClick={start}
          data-testid="jobs-delete"
        >
          {t("Delete jobs")}
        </Button>
      </Tooltip>
      <Confirm
        opened={request !== null}
        title={t("Delete {{count}} jobs?", { count: request?.count ?? 0 })}
        action={overLimit ? t("Close") : t("Delete jobs")}
        keep={t("Keep jobs")}
        busy={remove.isPending}
        onClose={() => setRequest(null)}
        onConfirm={() => request && (request.count === 0 || overLimit ? setRequest(null) : remove.mutate(request))}
      >
        {overLimit ? (
          t("At most {{most}} jobs can be deleted at once. Narrow the filter.", { most: MAX_JOBS })
        ) : (
          <>
            {request?.kind === "ids" && request.bytes > 0 && `${t("Their folders take {{size}}.", { size: formatBytes(request.bytes) })} `}
            {t("The logs, the metrics and the job folders with their checkpoints are deleted. This cannot be undone. Usage stays counted. Jobs that have not ended and jobs of other users are not affected.")}
          </>
        )}
      </Confirm>
    </>
  );
}
