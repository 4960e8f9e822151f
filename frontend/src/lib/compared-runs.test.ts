import { expect, it } from "vitest";
import { comparePath, isJobId, MOST_RUNS, readRuns } from "./compared-runs";

it("reads IDs once each, and no more than can be compared", () => {
  expect(readRuns(" a, b  a\nc,")).toEqual(["a", "b", "c"]);
  expect(readRuns(Array.from({ length: 20 }, (_, index) => `r${index}`).join(",")).length).toBe(MOST_RUNS);
  expect(isJobId("0b6c3d1e-0000-4000-8000-00000000000a")).toBe(true);
  expect([isJobId("1a2b3c4d"), isJobId("x")]).toEqual([false, false]);
  expect(comparePath(["a", "b"])).toBe("/compare?runs=a,b");
});
