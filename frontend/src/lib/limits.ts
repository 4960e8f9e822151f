/** Limits of projects as people read them, and the months they are counted in. */
import i18next from "i18next";
import type { LimitUse, ProjectLimits } from "@/api/projects";
import { msg } from "@/i18n/msg";
import { durationWords } from "@/lib/time";
import { formatBytes, formatNumber } from "@/lib/units";

const TITLES: Record<string, string> = {
  max_gpus: msg("GPUs"),
  max_cpus: msg("CPUs"),
  max_memory_bytes: msg("Memory"),
  max_nodes: msg("Nodes"),
  max_jobs: msg("Running jobs"),
  max_submitted: msg("Waiting and running jobs"),
  gpu_hours: msg("GPU-hours in all"),
  max_wall_s: msg("Longest job"),
};
const TYPED = "max_gpus_by_type.";

export interface LimitRow {
  name: string;
  title: string;
  /** What the project may use; null: no limit. */
  most: number | null;
  used: number | null;
  /** What the scheduler holds to is another number: it has not been brought in line. */
  held: number | null;
  by: [string, number][];
}

/** The name of the limit of one type of GPU. */
export const typedLimit = (type: string): string => TYPED + type;

export function limitTitle(name: string): string {
  if (name.startsWith(TYPED)) return i18next.t("{{type}} GPUs", { type: name.slice(TYPED.length) });
  const title = TITLES[name];
  return title === undefined ? name : i18next.t(title);
}

export function limitAmount(name: string, value: number): string {
  if (name === "max_memory_bytes") return formatBytes(value);
  return name === "max_wall_s" ? durationWords(value) : formatNumber(value);
}

/** Everything that is limited or in use, the limited first. */
export function limitRows({ limits, use }: ProjectLimits): LimitRow[] {
  const most = new Map<string, number>();
  for (const name of Object.keys(TITLES)) {
    const value = limits[name as keyof typeof limits];
    if (typeof value === "number") most.set(name, value);
    if (name === "max_gpus") for (const [type, count] of Object.entries(limits.max_gpus_by_type)) most.set(TYPED + type, count);
  }
  const known = new Map<string, LimitUse>(use.map((each) => [each.limit, each]));
  const names = [...most.keys(), ...use.filter((each) => each.used > 0 && !most.has(each.limit)).map((each) => each.limit)];
  return names.map((name) => {
    const used = known.get(name);
    const limit = most.get(name) ?? null;
    return {
      name,
      title: limitTitle(name),
      most: limit,
      used: used?.used ?? null,
      held: used && used.most !== limit ? used.most : null,
      by: Object.entries(used?.by ?? {}).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])),
    };
  });
}

/** This month and those before it, newest first, as the platform names them: in UTC. */
export function lastMonths(now: Date, count: number): string[] {
  return Array.from({ length: count }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}
