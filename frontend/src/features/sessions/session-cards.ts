/** The sessions with a card on the home page, and what is on it. */
import type { Job } from "@/api/types";
import { isFailure, isTerminal } from "@/lib/states";
import { HOUR } from "@/lib/time";

/** Time for which a session without a failure keeps its card after its end. */
const ENDED_CARD_S = HOUR;

/** Active sessions, failed ones until they are dismissed, stopped ones for a while; the order is kept. */
export function sessionsWithCard(sessions: readonly Job[], dismissed: ReadonlySet<string>, now: Date): Job[] {
  return sessions.filter((job) => {
    if (!isTerminal(job.state)) return true;
    if (dismissed.has(job.id)) return false;
    if (isFailure(job.state)) return true;
    const ended = job.ended_at === null ? 0 : new Date(job.ended_at).getTime();
    return now.getTime() - ended < ENDED_CARD_S * 1000;
  });
}

/** Whether the session runs and has notebooks, whose cells ranks can execute. */
export function canHaveRanks(session: Pick<Job, "type" | "state" | "entry_points">): boolean {
  return session.type === "session" && session.state === "READY" && session.entry_points.some(({ name }) => name === "lab");
}
