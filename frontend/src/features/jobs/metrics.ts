/** Converts samples of a job to the columns of a chart: one time axis, one line per node. */
import type { Metrics } from "@/api/types";
import type { Series } from "@/components/UsageChart";
import { formatBytes, formatNumber, withUnit } from "@/lib/units";

type Sample = Metrics["samples"][number];

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

type Gpu = Sample["gpu"][number];

/** A line for each GPU of each node, in the order of their numbers. */
function gpuSeries(samples: readonly Sample[], pick: (gpu: Gpu) => number | null): Series {
  const single = samples.flatMap((sample) =>
    sample.gpu.map((gpu, position) => ({ ...sample, node: `${sample.node} · GPU ${typeof gpu.index === "number" ? gpu.index : position}`, gpu: [gpu] })),
  );
  return seriesOf(single, (sample) => (sample.gpu[0] === undefined ? null : pick(sample.gpu[0])));
}

export type SampleValue = Metrics["values"][number];

/** A line for each GPU or node that has the value; shares are in percent. */
export function valueSeries(samples: readonly Sample[], { name, source, unit }: SampleValue): Series {
  const numberOf = (entry: Readonly<Record<string, unknown>>) => {
    const found = entry[name];
    return typeof found !== "number" ? null : unit === "ratio" ? found * 100 : found;
  };
  return source === "gpu" ? gpuSeries(samples, numberOf) : seriesOf(samples, (sample) => numberOf({ ...sample }));
}

/** How numbers of a value in this unit are written; shares are in percent. */
export function formatOf(unit: string): (value: number) => string {
  if (unit === "bytes") return formatBytes;
  return (value) => withUnit(formatNumber(Math.round(value)), unit === "ratio" ? "%" : unit);
}

export interface Energy {
  total: number;
  nodes: { name: string; joules: number }[];
}

/** Energy in joules of the CPUs and memory of each node since the job's start; null: it is not measured. */
export function cpuEnergyOf(samples: readonly Sample[]): Energy | null {
  return energyOf(samples.map((sample) => ({ node: sample.node, gpu: [{ energy_j: sample.cpu_energy_j }] })));
}

/** Energy in joules that the GPUs of each node used since the job's start; null: no GPU measures it. */
export function energyOf(samples: readonly Pick<Sample, "node" | "gpu">[]): Energy | null {
  const nodes = new Map<string, Map<unknown, number>>();
  for (const { node, gpu } of samples) {
    for (const [position, one] of gpu.entries()) {
      if (typeof one.energy_j !== "number") continue;
      const counters = nodes.get(node) ?? new Map<unknown, number>();
      const key = one.index ?? position;
      // A counter only grows, in whatever order the samples come.
      counters.set(key, Math.max(counters.get(key) ?? 0, one.energy_j));
      nodes.set(node, counters);
    }
  }
  if (nodes.size === 0) return null;
  const sums = [...nodes]
    .map(([name, counters]) => ({ name, joules: [...counters.values()].reduce((sum, joules) => sum + joules, 0) }))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  return { total: sums.reduce((sum, { joules }) => sum + joules, 0), nodes: sums };
}

/** The newest value of each line, shown below the chart. */
export function newest(series: Series): { name: string; value: number }[] {
  return series.lines.flatMap(({ name, values }) => {
    const value = values.filter((entry) => entry !== null).at(-1);
    return value === undefined ? [] : [{ name, value }];
  });
}

/** The last value, the mean and the peak over all nodes or GPUs; null without measurements. */
export function summaryOf(series: Series): { last: number; mean: number; peak: number } | null {
  const values = series.lines.flatMap((line) => line.values.filter((value) => value !== null));
  const latest = newest(series).map((line) => line.value);
  if (values.length === 0) return null;
  return { last: mean(latest), mean: mean(values), peak: values.reduce((a, b) => Math.max(a, b)) };
}

/** The end of the chart and the requested amount; where none is known, as with `--mem=0`, the peak alone: there is no share of it. */
export function limitOf(requested: number, series: Series, format: (value: number) => string): { limit: number; of?: string } {
  return requested > 0 ? { limit: requested, of: format(requested) } : { limit: summaryOf(series)?.peak ?? 0 };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Retention of measurements. */
const RETENTION_DAYS = 90;

export function isExpired(endedAt: string | null, now: Date): boolean {
  return endedAt !== null && now.getTime() - Date.parse(endedAt) > RETENTION_DAYS * 86_400_000;
}
