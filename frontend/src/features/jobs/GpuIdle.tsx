import { Alert } from "@mantine/core";
import { Moon } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { RelativeTime } from "@/components/Time";
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
