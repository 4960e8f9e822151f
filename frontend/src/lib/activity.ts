/** Notices that the user is at work in a page: input, also in a terminal; scrolling counts, an open page does not. */

export const REPORT_EVERY_MS = 60_000;

const INPUT = ["pointerdown", "keydown", "wheel", "touchmove"] as const;

/** Calls `report` for input in `page`, at most once a minute; returns a function that ends that. */
export function watchActivity(page: EventTarget, report: () => void, now: () => number = Date.now): () => void {
  let reportedAt = -Infinity;
  const onInput = () => {
    if (now() - reportedAt < REPORT_EVERY_MS) return;
    reportedAt = now();
    report();
  };
  // In the capture phase, because a terminal or an editor may stop the event.
  for (const kind of INPUT) page.addEventListener(kind, onInput, { capture: true, passive: true });
  return () => {
    for (const kind of INPUT) page.removeEventListener(kind, onInput, { capture: true });
  };
}
