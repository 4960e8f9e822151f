/** A job's events as lines of its history. */
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
    const withAttempt = (title: string) =>
      typeof attempt === "number" && attempt > 1 ? i18next.t("{{title}} (attempt {{attempt}})", { title, attempt }) : title;
    const title =
      titleOf(event) ??
      (event.kind === "job.created"
        ? withAttempt(i18next.t("Created"))
        : event.kind === "job.state"
          ? withAttempt(label)
          : event.data.cancel_requested === true
            ? i18next.t("Stop requested")
            : i18next.t("Updated"));
    return { id: event.id, time: event.time, title, message: typeof message === "string" ? message : null };
  });
}

/** The title of an event that does not change the job's state. */
function titleOf({ kind, data }: JobEvent): string | null {
  if (kind === "job.extended" && typeof data.seconds === "number") {
    return i18next.t("Extended by {{time}} ({{user}})", { time: formatDuration(data.seconds), user: String(data.by) });
  }
  if (kind === "job.attached") {
    const values = { user: String(data.by), node: String(data.node) };
    return data.kind === "ssh"
      ? i18next.t("SSH connection of {{user}} to {{node}}", values)
      : i18next.t("Terminal of {{user}} on {{node}}", values);
  }
  if (kind === "job.ending" && typeof data.left_s === "number") {
    return i18next.t("Ends in {{time}}", { time: formatDuration(data.left_s) });
  }
  return null;
}
