/** The sentence below a job's stages: why it waits, how it ended, or that it failed. */
import i18next from "i18next";
import type { Job } from "@/api/types";

export interface StageDetail {
  text: string;
  kind: "detailBad" | "detailWait" | "detailGood" | "detailInfo";
  /** The estimated start of a waiting job. */
  expected: string | null;
}

type Shown = Pick<Job, "state" | "reason" | "message" | "expected_start_at"> & { stages: Pick<Job["stages"][number], "status" | "detail">[] };

/** Null where the stages need no explanation. */
export function stageDetail(job: Shown): StageDetail | null {
  const text = job.stages.find((stage) => stage.detail)?.detail ?? job.message;
  if (job.stages.some((stage) => stage.status === "failed")) {
    return { text: text ?? i18next.t("Failed without a reported reason. See the log."), kind: "detailBad", expected: null };
  }
  // The scheduler reports the reason a few seconds later.
  if (job.state === "QUEUED") return { text: text ?? i18next.t("Waiting in the queue."), kind: "detailWait", expected: job.expected_start_at };
  if (!text) return null;
  if (job.state !== "COMPLETED") return { text, kind: "detailInfo", expected: null };
  return job.reason === "goal_reached" ? { text, kind: "detailGood", expected: null } : null;
}
