import { Anchor, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { idleGpusQuery } from "@/api/notifications";
import type { Job } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { NodeLinks } from "@/components/NodeLinks";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { EndConfirm } from "@/features/jobs/EndConfirm";
import { useJobActions } from "@/hooks/use-job-actions";
import { nameOfJob } from "@/lib/describe";
import tableClasses from "@/components/table.module.css";

/** For administrators: jobs, sessions and attached ranks with idle GPUs, those idle longest first. */
export function IdleGpus() {
  const { t } = useTranslation();
  const query = useQuery(idleGpusQuery);
  const columns: Column<Job>[] = [
    {
      header: t("Job"),
      className: tableClasses.name,
      cell: (job) => (
        <Anchor component={Link} to={`/jobs/${job.id}`} fw={600}>
          {nameOfJob(job)}
        </Anchor>
      ),
    },
    { header: t("Kind"), cell: (job) => <Kind job={job} /> },
    { header: t("Owner"), cell: (job) => job.owner },
    { header: t("GPUs"), cell: (job) => job.resources.nodes * job.resources.gpu.count },
    { header: t("Nodes"), cell: (job) => <NodeLinks nodes={job.nodes} short /> },
    { header: t("Idle since"), cell: (job) => job.gpu_idle_since !== null && <RelativeTime at={job.gpu_idle_since} /> },
  ];
  return (
    <DataTable
      columns={columns}
      query={query}
      rows={query.data?.items}
      rowKey={(job) => job.id}
      actions={(job) => <EndButton job={job} />}
      empty={
        <EmptyState icon={CircleCheck} title={t("No idle GPUs")}>
          {t("Jobs, sessions and attached ranks whose GPUs were nearly idle for 30 minutes are listed here.")}
        </EmptyState>
      }
      testId="idle-gpus"
      rowTestId="idle-gpus-row"
    />
  );
}

/** What kind of work it is; ranks link to their session. */
function Kind({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.session_id === null) return job.type === "session" ? t("Session") : t("Batch job");
  return (
    <Anchor component={Link} to={`/jobs/${job.session_id}`} size="sm">
      {t("Ranks of a session")}
    </Anchor>
  );
}

function EndButton({ job }: { job: Job }) {
  const { t } = useTranslation();
  const { stop } = useJobActions(job);
  const [confirming, setConfirming] = useState(false);
  const action = job.session_id !== null ? t("Release") : job.type === "session" ? t("Stop") : t("Cancel");
  return (
    <>
      <Button
        size="compact-sm"
        variant="subtle"
        color="red"
        loading={stop.isPending}
        disabled={job.cancel_requested || stop.isSuccess || !(job.actions.includes("cancel") || job.actions.includes("stop"))}
        aria-label={`${action}: ${nameOfJob(job)}`}
        onClick={() => setConfirming(true)}
        data-testid="idle-gpus-end"
      >
        {action}
      </Button>
      <EndConfirm job={job} opened={confirming} stop={stop} onClose={() => setConfirming(false)} />
    </>
  );
}
