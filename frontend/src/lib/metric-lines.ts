/** Curves of metrics as columns of a chart. */
import type { Results } from "@/api/runs";

export interface MetricLine {
  name: string;
  /** Step and value, by step. */
  points: readonly (readonly number[])[];
}

/** One axis of all steps and a column for each line; null where a line has no value. */
export function alignedData(lines: readonly MetricLine[]): [number[], ...(number | null)[][]] {
  const steps = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0] ?? 0)))].sort((a, b) => a - b);
  const columns = lines.map((line) => {
    const values = new Map(line.points.map((point) => [point[0] ?? 0, point[1] ?? null]));
    return steps.map((step) => values.get(step) ?? null);
  });
  return [steps, ...columns];
}

/** The metrics that have a course: two points at least in one of the runs. */
export function curvesOf(runs: readonly (Results | null | undefined)[]): string[] {
  const names = new Set<string>();
  for (const run of runs) {
    for (const [name, points] of Object.entries(run?.series ?? {})) {
      if (points.length > 1) names.add(name);
    }
  }
  return [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

/** The lines of one metric for several runs; runs without it are left out. */
export function linesOf(metric: string, runs: readonly { name: string; results: Results | null | undefined }[]): MetricLine[] {
  return runs.flatMap(({ name, results }) => {
    const points = results?.series[metric] ?? [];
    return points.length === 0 ? [] : [{ name, points }];
  });
}
