/** A job's events as sentences. */
import i18next from "i18next";
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
    const again = (title: string) =>
      typeof attempt === "number" && attempt > 1 ? i18next.t("{{title}} (attempt {{attempt}})", { title, attempt }) : title;
    const title =
      wordsOf(event) ??
      (event.kind === "job.created"
        ? again(i18next.t("Created"))
        : event.kind === "job.state"
          ? again(label)
          : event.data.cancel_requested === true
            ? i18next.t("Asked to stop")
            : i18next.t("Changed"));
    return { id: event.id, time: event.time, title, message: typeof message === "string" ? message : null };
  });
}

/** What is said of a session without a change of the job itself. */
function wordsOf({ kind, data }: JobEvent): string | null {
  if (kind === "job.extended" && typeof data.seconds === "number") {
    return i18next.t("{{time}} more, by {{user}}", { time: formatDuration(data.seconds), user: String(data.by) });
  }
  if (kind === "job.attached") {
    const where = { user: String(data.by), node: String(data.node) };
    return data.kind === "ssh"
      ? i18next.t("SSH connection of {{user}} to {{node}}", where)
      : i18next.t("Terminal of {{user}} on {{node}}", where);
  }
  if (kind === "job.ending" && typeof data.left_s === "number") {
    return i18next.t("Ends in {{time}}", { time: formatDuration(data.left_s) });
  }
  return null;
}
