/** Events about the approaching end of a session. Pure. */
import i18next from "i18next";
import type { Job, JobEvent } from "@/api/types";
import { formatDuration } from "@/lib/time";

/** Remaining time at which a session's countdown becomes a warning. */
export const SOON_S = 10 * 60;

/** Remaining time at which the end of a job is announced: its last tenth, and no more than for a session. */
export function soonOf({ type, max_duration_s: limit }: Pick<Job, "type" | "max_duration_s">): number {
  return type === "session" ? SOON_S : Math.min(SOON_S, limit / 10);
}

export interface Ending {
  jobId: string;
  name: string;
  leftS: number;
  expiresAt: string;
}

/** The ending in an event of the user's own sessions; null for other events and for an end in the past. */
export function endingOf(event: JobEvent, user: string, now: Date): Ending | null {
  const { name, left_s: leftS, expires_at: expiresAt } = event.data;
  if (event.kind !== "job.ending" || event.owner !== user || event.job_id === null) return null;
  if (typeof name !== "string" || typeof leftS !== "number" || typeof expiresAt !== "string") return null;
  // A reconnected feed replays missed events.
  if (new Date(expiresAt) <= now) return null;
  return { jobId: event.job_id, name, leftS, expiresAt };
}

/** "Notes ends in 10 min". */
export function endingTitle(ending: Ending): string {
  return i18next.t("{{name}} ends in {{time}}", { name: ending.name, time: formatDuration(ending.leftS) });
}

/** The ID of the toast: one for each end and remaining time, however often the event arrives. */
export function endingKey(ending: Ending): string {
  return `ending-${ending.jobId}-${ending.expiresAt}-${ending.leftS}`;
}
