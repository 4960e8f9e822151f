import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { ToneBadge } from "@/components/ToneBadge";

/** Marks a job that was submitted with Slurm's own commands; `short` where the name needs the room. */
export function OutsideBadge({ job, short }: { job: Pick<Job, "origin">; short?: boolean }) {
  const { t } = useTranslation();
  if (job.origin !== "outside") return null;
  return (
    <span title={t("Submitted with Slurm commands, such as sbatch")} data-testid="job-outside">
      <ToneBadge tone="neutral">{short ? "Slurm" : t("Submitted with Slurm commands")}</ToneBadge>
    </span>
  );
}
