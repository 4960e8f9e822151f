import { Anchor, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { idleGpusQuery } from "@/api/notifications";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { NodeLinks } from "@/components/NodeLinks";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import { EndConfirm } from "@/features/jobs/EndConfirm";
import { useJobActions } from "@/hooks/use-job-actions";
import { nameOfJob } from "@/lib/describe";
import tableClasses from "@/components/table.module.css";

/** For administrators: jobs, sessions and attached ranks with idle GPUs, those idle longest first. */
export function IdleGpus() {
  const { t } = useTranslation();
  const query = useQuery(idleGpusQuery);
  if (query.isPending) return <PanelSkeleton rows={3} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  if (query.data.items.length === 0) {
    return (
      <EmptyState icon={CircleCheck} title={t("No idle GPUs")}>
        {t("Jobs, sessions and attached ranks whose GPUs were nearly idle for 30 minutes are listed here.")}
      </EmptyState>
    );
  }
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table} data-testid="idle-gpus">
        <thead>
          <tr>
            <th scope="col">{t("Job")}</th>
            <th scope="col">{t("Kind")}</th>
            <th scope="col">{t("Owner")}</th>
            <th scope="col">{t("GPUs")}</th>
            <th scope="col">{t("Nodes")}</th>
            <th scope="col">{t("Idle since")}</th>
            <th scope="col">
              <span className="visually-hidden">{t("Actions")}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {query.data.items.map((job) => (
            <tr key={job.id} data-testid="idle-gpus-row">
              <td className={tableClasses.name}>
                <Anchor component={Link} to={`/jobs/${job.id}`} fw={600}>
                  {nameOfJob(job)}
                </Anchor>
              </td>
              <td data-label={t("Kind")}>
                <Kind job={job} />
              </td>
              <td data-label={t("Owner")}>{job.owner}</td>
              <td data-label={t("GPUs")}>{job.resources.nodes * job.resources.gpu.count}</td>
              <td data-label={t("Nodes")}>
                <NodeLinks nodes={job.nodes} short />
              </td>
              <td data-label={t("Idle since")}>{job.gpu_idle_since !== null && <RelativeTime at={job.gpu_idle_since} />}</td>
              <td className={tableClasses.num}>
                <EndButton job={job} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
