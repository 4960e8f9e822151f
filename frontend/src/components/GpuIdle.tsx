import { Alert, Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, Moon } from "lucide-react";
import { useTranslation } from "react-i18next";
import { idleGpusQuery } from "@/api/notifications";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import tableClasses from "@/components/table.module.css";
import { isTerminal } from "@/lib/states";
import classes from "./GpuIdle.module.css";

/** Beside a job's name in tables: it holds GPUs and does next to nothing with them. */
export function GpuIdleMark({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.gpu_idle_since === null || isTerminal(job.state)) return null;
  return (
    <span role="img" aria-label={t("GPUs idle")} title={t("GPUs idle")} className={classes.mark} data-testid="gpu-idle-mark">
      <Moon size={14} aria-hidden />
    </span>
  );
}

/** On the job's page: since when, and what may be done. */
export function GpuIdleHint({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.gpu_idle_since === null || isTerminal(job.state)) return null;
  return (
    <Alert color="orange" icon={<Moon size={18} />} mb="md" title={t("It leaves its GPUs idle")} data-testid="gpu-idle">
      {t("It has been so since")} <RelativeTime at={job.gpu_idle_since} />.{" "}
      {t("Look whether its program uses them at all, whether it waits for data or writes, or cancel it so that others can.")}
    </Alert>
  );
}

/** For administrators: who holds GPUs that do nothing. */
export function IdleGpuList() {
  const { t } = useTranslation();
  const query = useQuery(idleGpusQuery);
  if (query.isPending) return <PanelSkeleton rows={3} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data.items.length === 0) {
    return (
      <EmptyState icon={CircleCheck} title={t("No GPU is left idle")}>
        {t("Jobs whose GPUs had next to nothing to do for half an hour stand here.")}
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
                  {job.name}
                </Anchor>
              </td>
              <td data-label={t("Owner")}>{job.owner}</td>
              <td data-label={t("GPUs")}>{job.resources.nodes * job.resources.gpu.count}</td>
              <td data-label={t("Nodes")}>{job.nodes.join(", ")}</td>
              <td data-label={t("Idle since")}>{job.gpu_idle_since !== null && <RelativeTime at={job.gpu_idle_since} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
