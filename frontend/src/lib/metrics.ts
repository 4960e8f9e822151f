/** Samples of a job -> columns that a chart draws: one time axis, one line per node. */
import type { Metrics } from "@/api/types";

type Sample = Metrics["samples"][number];

export interface Series {
  /** Unix seconds, ascending. */
  times: number[];
  lines: { name: string; values: (number | null)[] }[];
}

/** `pick` null leaves a gap. Samples of several nodes share the axis, rounded to whole seconds. */
export function seriesOf(samples: readonly Sample[], pick: (sample: Sample) => number | null): Series {
  const byNode = new Map<string, Map<number, number | null>>();
  const times = new Set<number>();
  for (const sample of samples) {
    const time = Math.round(Date.parse(sample.time) / 1000);
    times.add(time);
    const line = byNode.get(sample.node) ?? new Map<number, number | null>();
    line.set(time, pick(sample));
    byNode.set(sample.node, line);
  }
  const axis = [...times].sort((a, b) => a - b);
  return {
    times: axis,
    lines: [...byNode]
      .sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
      .map(([name, line]) => ({ name, values: axis.map((time) => line.get(time) ?? null) })),
  };
}

/** The mean utilization of a sample's GPUs in percent; null without any. */
export function gpuPercent(sample: Sample): number | null {
  const values = sample.gpu
    .map((gpu) => gpu.utilization)
    .filter((value): value is number => typeof value === "number");
  return values.length === 0 ? null : (100 * values.reduce((sum, value) => sum + value, 0)) / values.length;
}
