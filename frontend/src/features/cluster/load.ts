/** The cluster's load over time as lines of a chart and rows of a table. */
import type { LoadHistory } from "@/api/types";
import type { Series } from "@/components/UsageChart";

export type Load = LoadHistory["items"][number];
export type LoadValue = Exclude<keyof Load, "time">;

const secondsOf = (load: Load) => Math.round(Date.parse(load.time) / 1000);

/** One line; an interval without a sample is a gap. */
export function loadSeries(history: LoadHistory, value: LoadValue): Series {
  const known = new Map(history.items.map((load) => [secondsOf(load), load[value]]));
  const all = [...known.keys()];
  const first = all[0];
  const last = all.at(-1);
  const times: number[] = [];
  if (first !== undefined && last !== undefined) for (let time = first; time <= last; time += history.interval_s) times.push(time);
  return { times, lines: [{ name: value, values: times.map((time) => known.get(time) ?? null) }] };
}

/** Means over longer intervals of `seconds`, newest first. */
export function loadRows(history: LoadHistory, seconds: number): Load[] {
  const groups = new Map<number, Load[]>();
  for (const load of history.items) {
    const start = Math.floor(secondsOf(load) / seconds) * seconds;
    groups.set(start, [...(groups.get(start) ?? []), load]);
  }
  return [...groups]
    .sort(([a], [b]) => b - a)
    .map(([start, loads]) => {
      const mean = (value: LoadValue) => loads.reduce((sum, load) => sum + load[value], 0) / loads.length;
      return {
        time: new Date(start * 1000).toISOString(),
        cpu_total: mean("cpu_total"), cpu_used: mean("cpu_used"),
        memory_total_bytes: mean("memory_total_bytes"), memory_used_bytes: mean("memory_used_bytes"),
        gpu_total: mean("gpu_total"), gpu_used: mean("gpu_used"),
        waiting_jobs: mean("waiting_jobs"),
      };
    });
}

/** The largest value of the period. */
export function peakOf(history: LoadHistory, value: LoadValue): number {
  return history.items.reduce((most, load) => Math.max(most, load[value]), 0);
}

/** The mean share of the total that was allocated, in percent; null if there was never any. */
export function meanShare(history: LoadHistory, used: LoadValue, total: LoadValue): number | null {
  const whole = history.items.reduce((sum, load) => sum + load[total], 0);
  return whole === 0 ? null : Math.round((100 * history.items.reduce((sum, load) => sum + load[used], 0)) / whole);
}
