/** What the feed says of notifications. Pure. */
import type { JobEvent } from "@/api/types";
import type { News } from "@/components/notify-told";

const FRESH_MS = 2 * 60_000;

/** The notification in the event, if it is the user's own, new, and not to be kept quiet. */
export function newsOf(event: unknown, user: string, now: Date): News | null {
  if (typeof event !== "object" || event === null) return null;
  const { kind, owner, time, data } = event as JobEvent;
  if (kind !== "notification.added" || owner !== user || data.popup !== true) return null;
  // A feed that comes back tells of what was missed too: that is in the inbox.
  if (now.getTime() - new Date(time).getTime() > FRESH_MS) return null;
  return typeof data.id === "number" && typeof data.title === "string" ? (data as unknown as News) : null;
}

/** Whether the user's inbox is another than before. */
export function changesInbox(event: unknown, user: string): boolean {
  if (typeof event !== "object" || event === null) return false;
  const { kind, owner } = event as JobEvent;
  return owner === user && (kind === "notification.added" || kind === "notification.read");
}
