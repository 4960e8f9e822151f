/** The platform's word that a session's time is nearly up. Pure. */
import i18next from "i18next";
import type { JobEvent } from "@/api/types";
import { formatDuration } from "@/lib/time";

/** From this on a session's countdown warns. */
export const SOON_S = 10 * 60;

export interface Ending {
  jobId: string;
  name: string;
  leftS: number;
  expiresAt: string;
}

/** What the event says, if it is of one of the user's own sessions and its end has not passed. */
export function endingOf(event: JobEvent, user: string, now: Date): Ending | null {
  const { name, left_s: leftS, expires_at: expiresAt } = event.data;
  if (event.kind !== "job.ending" || event.owner !== user || event.job_id === null) return null;
  if (typeof name !== "string" || typeof leftS !== "number" || typeof expiresAt !== "string") return null;
  // A feed that comes back tells of what was missed too.
  if (new Date(expiresAt) <= now) return null;
  return { jobId: event.job_id, name, leftS, expiresAt };
}

/** "Notes ends in 10 min". */
export function endingTitle(ending: Ending): string {
  return i18next.t("{{name}} ends in {{time}}", { name: ending.name, time: formatDuration(ending.leftS) });
}

/** One notice per end and step, however often it is told. */
export function endingKey(ending: Ending): string {
  return `ending-${ending.jobId}-${ending.expiresAt}-${ending.leftS}`;
}
