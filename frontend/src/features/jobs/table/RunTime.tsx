import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { Elapsed } from "@/components/Time";
import { runTimeBounds } from "@/lib/describe";
import { isTerminal } from "@/lib/states";
import { formatDuration, secondsBetween } from "@/lib/time";

/** The run time of the job's program, up to now while it runs. */
export function RunTime({ job }: { job: Job }) {
  const { t } = useTranslation();
  const bounds = runTimeBounds(job);
  if (bounds === null) return <span aria-label={t("not started")}>–</span>;
  if (bounds.to === null) return isTerminal(job.state) ? <>–</> : <Elapsed since={bounds.from} />;
  return <>{formatDuration(secondsBetween(bounds.from, bounds.to, new Date()))}</>;
}
