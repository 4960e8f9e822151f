/** A job's events as sentences. */
import type { JobEvent, JobState } from "@/api/types";
import { lookOf } from "@/lib/states";
import { formatDuration } from "@/lib/time";

export interface HistoryLine {
  id: number;
  time: string;
  title: string;
  message: string | null;
}

export function historyOf(events: readonly JobEvent[], session: boolean): HistoryLine[] {
  return events.map((event) => {
    const { state, message, attempt } = event.data;
    const label = typeof state === "string" ? lookOf(state as JobState, { session }).label : "";
    const again = typeof attempt === "number" && attempt > 1 ? ` (attempt ${attempt})` : "";
    const title =
      wordsOf(event) ??
      (event.kind === "job.created"
        ? `Created${again}`
        : event.kind === "job.state"
          ? `${label}${again}`
          : event.data.cancel_requested === true
            ? "Asked to stop"
            : "Changed");
    return { id: event.id, time: event.time, title, message: typeof message === "string" ? message : null };
  });
}

/** What is said of a session without a change of the job itself. */
function wordsOf({ kind, data }: JobEvent): string | null {
  if (kind === "job.extended" && typeof data.seconds === "number") {
    return `${formatDuration(data.seconds)} more, by ${String(data.by)}`;
  }
  if (kind === "job.ending" && typeof data.left_s === "number") return `Ends in ${formatDuration(data.left_s)}`;
  return null;
}
