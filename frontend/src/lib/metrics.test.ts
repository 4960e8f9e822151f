import { expect, it } from "vitest";
import { gpuPercent, seriesOf } from "./metrics";

const sample = (time: string, node: string, cpu: number) => ({ time, node, cpu, memory_bytes: 1, processes: 1, gpu: [] });

it("puts the samples of several nodes on one axis", () => {
  const series = seriesOf(
    [
      sample("2026-03-01T12:00:02.2Z", "n10", 1),
      sample("2026-03-01T12:00:00Z", "n2", 2),
      sample("2026-03-01T12:00:02.4Z", "n2", 3),
    ],
    (entry) => entry.cpu,
  );
  expect(series.times).toHaveLength(2);
  expect(series.lines).toEqual([
    { name: "n2", values: [2, 3] },
    { name: "n10", values: [null, 1] },
  ]);
});

it("averages what the GPUs do", () => {
  const gpus = [{ index: 0, utilization: 0.5 }, { index: 1, utilization: 1 }, { index: 2 }];
  expect(gpuPercent({ ...sample("2026-03-01T12:00:00Z", "n", 1), gpu: gpus })).toBe(75);
  expect(gpuPercent(sample("2026-03-01T12:00:00Z", "n", 1))).toBeNull();
});
