import { Anchor, Button, Group, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GitCompareArrows, Square, X } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cancelJobs, cancelMatching, countLive } from "@/api/actions";
import { keys } from "@/api/queries";
import type { CancelResults, Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { DeleteSelection } from "./DeleteSelection";
import { notifyDone, notifyProblem } from "@/components/notify";
import { comparePath, MOST_RUNS } from "@/lib/compared-runs";
import type { JobSearch } from "@/lib/job-filters";
import { isTerminal } from "@/lib/states";
import classes from "@/components/Jobs.module.css";

/** The maximum number of jobs in one cancel request. */
const MAX_JOBS = 1_000;

interface Props {
  jobs: readonly Job[];
  /** The number of matching jobs, fetched or not. */
  total: number;
  search: JobSearch;
  /** Whether all matching jobs are selected, not only `jobs`. */
  allMatching: boolean;
  onSelectAll: () => void;
  onClear: () => void;
}

type CancelRequest = { kind: "ids"; ids: string[]; count: number } | { kind: "matching"; count: number };

/** Actions for the selected jobs. */
export function SelectionBar({ jobs, total, search, allMatching, onSelectAll, onClear }: Props) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [request, setRequest] = useState<CancelRequest | null>(null);
  const live = jobs.filter((job) => !isTerminal(job.state) && !job.cancel_requested);

  const countMatching = useMutation({
    mutationFn: () => countLive(search),
    onSuccess: (count) => setRequest({ kind: "matching", count }),
    onError: (error) => notifyProblem(t("Could not cancel the jobs"), error),
  });
  const cancel = useMutation({
    mutationFn: (jobsToCancel: CancelRequest) => (jobsToCancel.kind === "ids" ? cancelJobs(jobsToCancel.ids) : cancelMatching(search, jobsToCancel.count)),
    onSuccess: (results) => {
      report(results);
      onClear();
    },
    onError: (error) => notifyProblem(t("Could not cancel the jobs"), error),
    onSettled: () => {
      setRequest(null);
      void cache.invalidateQueries({ queryKey: keys.lists });
    },
  });
  const report = ({ requested, items }: CancelResults) => {
    const failures = items.filter((item) => item.outcome === "not_allowed" || item.outcome === "not_found");
    if (failures[0]) notifyProblem(t("{{count}} jobs were not cancelled", { count: failures.length }), new Error(failures[0].reason ?? ""));
    if (requested > 0) notifyDone(t("Cancelling {{count}} jobs", { count: requested }));
  };
  const start = () => (allMatching ? countMatching.mutate() : setRequest({ kind: "ids", ids: live.map((job) => job.id), count: live.length }));
  const overLimit = request !== null && request.count > MAX_JOBS;
  return (
    <div className={classes.selection} role="region" aria-label={t("Selection")} data-testid="jobs-selection">
      <Text size="sm" fw={600} role="status">
        {allMatching ? t("All {{count}} matching jobs selected", { count: total }) : t("{{count}} selected", { count: jobs.length })}
      </Text>
      {!allMatching && total > jobs.length && jobs.length > 1 && (
        <Anchor component="button" type="button" size="sm" onClick={onSelectAll}>
          {t("Select all {{count}} matching jobs", { count: total })}
        </Anchor>
      )}
      <Group gap="xs" ml="auto">
        {!allMatching && jobs.length >= 2 && jobs.length <= MOST_RUNS && (
          <Button
            renderRoot={(props) => <Link {...props} to={comparePath(jobs.map((job) => job.id)) as "/"} />}
            size="xs"
            variant="default"
            leftSection={<GitCompareArrows size={15} />}
            data-testid="jobs-compare"
          >
            {t("Compare")}
          </Button>
        )}
        <Button
          size="xs"
          color="red"
          variant="light"
          leftSection={<Square size={13} />}
          disabled={!allMatching && live.length === 0}
          loading={countMatching.isPending}
          onClick={start}
          data-testid="jobs-cancel"
        >
          {t("Cancel jobs")}
        </Button>
        <DeleteSelection jobs={jobs} search={search} allMatching={allMatching} onDone={onClear} />
        <Button size="xs" variant="subtle" color="gray" leftSection={<X size={15} />} onClick={onClear}>
          {t("Clear selection")}
        </Button>
      </Group>
      <Confirm
        opened={request !== null}
        title={t("Cancel {{count}} jobs?", { count: request?.count ?? 0 })}
        action={overLimit ? t("Close") : t("Cancel jobs")}
        keep={t("Keep jobs")}
        busy={cancel.isPending}
        onClose={() => setRequest(null)}
        onConfirm={() => request && (request.count === 0 || overLimit ? setRequest(null) : cancel.mutate(request))}
      >
        {overLimit
          ? t("At most {{most}} jobs can be cancelled at once. Narrow the filter.", { most: MAX_JOBS })
          : t("The jobs end immediately. Files already written are kept; unsaved work is lost. Ended jobs and jobs of other users are not affected.")}
      </Confirm>
    </div>
  );
}
