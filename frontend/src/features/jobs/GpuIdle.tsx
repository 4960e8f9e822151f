import { Alert, Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, Moon } from "lucide-react";
import { useTranslation } from "react-i18next";
import { idleGpusQuery } from "@/api/notifications";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { NodeLinks } from "@/components/NodeLinks";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import tableClasses from "@/components/table.module.css";
import { nameOfJob } from "@/lib/describe";
import { isTerminal } from "@/lib/states";
import classes from "./GpuIdle.module.css";

/** An icon beside the name of a job with idle GPUs. */
export function GpuIdleMark({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.gpu_idle_since === null || isTerminal(job.state)) return null;
  return (
    <span role="img" aria-label={t("GPUs idle")} title={t("GPUs idle")} className={classes.mark} data-testid="gpu-idle-mark">
      <Moon size={14} aria-hidden />
    </span>
  );
}

/** On the job page: the duration of the idle state, and what the user can do. */
export function GpuIdleHint({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.gpu_idle_since === null || isTerminal(job.state)) return null;
  return (
    <Alert color="orange" icon={<Moon size={18} />} mb="md" title={t("Idle GPUs")} data-testid="gpu-idle">
      {t("Idle since")} <RelativeTime at={job.gpu_idle_since} />.{" "}
      {t("Check whether the program uses the GPUs or is blocked on data input or output, or cancel the job to free the GPUs.")}
    </Alert>
  );
}

/** For administrators: jobs with idle GPUs. */
export function IdleGpuList() {
  const { t } = useTranslation();
  const query = useQuery(idleGpusQuery);
  if (query.isPending) return <PanelSkeleton rows={3} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data.items.length === 0) {
    return (
      <EmptyState icon={CircleCheck} title={t("No idle GPUs")}>
        {t("Jobs whose GPUs were nearly idle for 30 minutes are listed here.")}
      </EmptyState>
    );
  }
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table} data-testid="idle-gpus">
        <thead>
          <tr>
            <th scope="col">{t("Job")}</th>
            <th scope="col">{t("Owner")}</th>
            <th scope="col">{t("GPUs")}</th>
            <th scope="col">{t("Nodes")}</th>
            <th scope="col">{t("Idle since")}</th>
          </tr>
        </thead>
        <tbody>
          {query.data.items.map((job) => (
            <tr key={job.id}>
              <td className={tableClasses.name}>
                <Anchor component={Link} to={`/jobs/${job.id}`} fw={600}>
                  {nameOfJob(job)}
                </Anchor>
              </td>
              <td data-label={t("Owner")}>{job.owner}</td>
              <td data-label={t("GPUs")}>{job.resources.nodes * job.resources.gpu.count}</td>
              <td data-label={t("Nodes")}><NodeLinks nodes={job.nodes} /></td>
              <td data-label={t("Idle since")}>{job.gpu_idle_since !== null && <RelativeTime at={job.gpu_idle_since} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
