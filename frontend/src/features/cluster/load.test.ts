import { expect, it } from "vitest";
import type { LoadHistory } from "@/api/types";
import { type Load, loadRows, loadSeries, meanShare, peakOf } from "./load";

const at = (time: string, cpuUsed: number): Load => ({
  time: `2026-03-01T${time}:00Z`,
  cpu_total: 8, cpu_used: cpuUsed,
  memory_total_bytes: 100, memory_used_bytes: 50,
  gpu_total: 0, gpu_used: 0,
  waiting_jobs: 3,
});
const history: LoadHistory = { interval_s: 600, items: [at("10:00", 2), at("10:10", 4), at("10:40", 8), at("11:00", 6)] };

it("leaves a gap where there was no sample", () => {
  const { times, lines } = loadSeries(history, "cpu_used");
  expect(times.length).toBe(7);
  expect(lines[0]?.values).toEqual([2, 4, null, null, 8, null, 6]);
  expect(loadSeries({ interval_s: 600, items: [] }, "cpu_used").times).toEqual([]);
});

it("has a row of means for each hour, newest first", () => {
  const rows = loadRows(history, 3_600);
  expect(rows.map((row) => [row.time, row.cpu_used])).toEqual([["2026-03-01T11:00:00.000Z", 6], ["2026-03-01T10:00:00.000Z", 14 / 3]]);
});

it("knows the peak and the mean share", () => {
  expect(peakOf(history, "cpu_used")).toBe(8);
  expect(meanShare(history, "cpu_used", "cpu_total")).toBe(63);
  expect(meanShare(history, "gpu_used", "gpu_total")).toBeNull();
});
