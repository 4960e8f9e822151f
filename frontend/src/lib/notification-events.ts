/** Notifications in the live feed. Pure. */
import type { JobEvent } from "@/api/types";
import type { NewNotification } from "@/components/show-notification";

const MAX_AGE_MS = 2 * 60_000;

/** The notification in the event, if it is the user's own, recent, and to be shown as a toast. */
export function notificationOf(event: unknown, user: string, now: Date): NewNotification | null {
  if (typeof event !== "object" || event === null) return null;
  const { kind, owner, time, data } = event as JobEvent;
  if (kind !== "notification.added" || owner !== user || data.popup !== true) return null;
  // A reconnected feed replays missed events; those are in the inbox.
  if (now.getTime() - new Date(time).getTime() > MAX_AGE_MS) return null;
  return typeof data.id === "number" && typeof data.title === "string" ? (data as unknown as NewNotification) : null;
}

/** Whether the event changes the user's inbox. */
export function changesInbox(event: unknown, user: string): boolean {
  if (typeof event !== "object" || event === null) return false;
  const { kind, owner } = event as JobEvent;
  return owner === user && (kind === "notification.added" || kind === "notification.read");
}
