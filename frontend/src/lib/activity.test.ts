import { expect, it } from "vitest";
import { REPORT_EVERY_MS, watchActivity } from "./activity";

/** A page at a time that the test sets, and the times of its reports. */
function watched() {
  const page = new EventTarget();
  const reports: number[] = [];
  const clock = { now: 0 };
  const stop = watchActivity(
    page,
    () => reports.push(clock.now),
    () => clock.now,
  );
  return { page, reports, clock, stop };
}

it("reports input at once and then once a minute", () => {
  const { page, reports, clock } = watched();
  for (const [now, kind] of [
    [1, "keydown"],
    [2, "pointerdown"],
    [REPORT_EVERY_MS, "wheel"],
    [REPORT_EVERY_MS + 1, "wheel"],
    [9 * REPORT_EVERY_MS, "touchmove"],
  ] as const) {
    clock.now = now;
    page.dispatchEvent(new Event(kind));
  }
  expect(reports).toEqual([1, REPORT_EVERY_MS + 1, 9 * REPORT_EVERY_MS]);
});

it("reports nothing for a page that is only open, or left", () => {
  const { page, reports, stop } = watched();
  for (const kind of ["visibilitychange", "message", "focus"]) page.dispatchEvent(new Event(kind));
  stop();
  page.dispatchEvent(new Event("keydown"));
  expect(reports).toEqual([]);
});
