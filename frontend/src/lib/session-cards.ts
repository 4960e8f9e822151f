/** Which sessions have a card on the front page. */
import type { Job } from "@/api/types";
import { isFailure, isTerminal } from "@/lib/states";
import { HOUR } from "@/lib/time";

/** A session that ended as it should stays this long, so that nothing vanishes under the mouse. */
const GOOD_END_STAYS_S = HOUR;

/** Live ones; failed ones until somebody puts them away; stopped ones for a while. In the order given. */
export function sessionsWithCard(sessions: readonly Job[], dismissed: ReadonlySet<string>, now: Date): Job[] {
  return sessions.filter((job) => {
    if (!isTerminal(job.state)) return true;
    if (dismissed.has(job.id)) return false;
    if (isFailure(job.state)) return true;
    const ended = job.ended_at === null ? 0 : new Date(job.ended_at).getTime();
    return now.getTime() - ended < GOOD_END_STAYS_S * 1000;
  });
}
