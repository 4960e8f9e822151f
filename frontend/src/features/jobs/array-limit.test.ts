import { expect, it } from "vitest";
import { runningLimit } from "./array-limit";

it("reads the maximum of running tasks", () => {
  expect(runningLimit("0-99:10%8")).toBe(8);
  expect(runningLimit("0-99%16")).toBe(16);
  expect(runningLimit("1,3,5")).toBeNull();
});
