import { expect, test } from "vitest";
import { stageDetail } from "./stage-detail";

const queued = { state: "QUEUED" as const, reason: null, message: null, expected_start_at: null, stages: [{ status: "current" as const, detail: null }] };

test("a queued job has a reason before the scheduler reports one", () => {
  expect(stageDetail(queued)).toEqual({ text: "Waiting in the queue.", kind: "detailWait", expected: null });
  expect(stageDetail({ ...queued, message: "Waits for 4 CPUs." })?.text).toBe("Waits for 4 CPUs.");
});

test("a failed stage is explained, and a completed job needs no explanation", () => {
  expect(stageDetail({ ...queued, state: "FAILED", message: "It failed.", stages: [{ status: "failed", detail: null }] })?.kind).toBe("detailBad");
  const done = { ...queued, state: "COMPLETED" as const, message: "x", stages: [{ status: "done" as const, detail: null }] };
  expect(stageDetail(done)).toBeNull();
  expect(stageDetail({ ...done, reason: "goal_reached" })?.kind).toBe("detailGood");
});
