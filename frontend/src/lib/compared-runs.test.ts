import { expect, it } from "vitest";
import { comparePath, MOST_RUNS, readRuns } from "./compared-runs";

it("reads IDs once each, and no more than can be compared", () => {
  expect(readRuns(" a, b  a\nc,")).toEqual(["a", "b", "c"]);
  expect(readRuns(Array.from({ length: 20 }, (_, index) => `r${index}`).join(",")).length).toBe(MOST_RUNS);
  expect(comparePath(["a", "b"])).toBe("/compare?runs=a,b");
});
