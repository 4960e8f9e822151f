/** Labels and amounts of project limits, and the months of usage reports. */
import i18next from "i18next";
import type { LimitUse, ProjectLimits } from "@/api/projects";
import type { Me } from "@/api/types";
import { msg } from "@/i18n/msg";
import { durationWords } from "@/lib/time";
import { formatBytes, formatNumber } from "@/lib/units";

const TITLES: Record<string, string> = {
  max_gpus: msg("GPUs"),
  max_cpus: msg("CPUs"),
  max_memory_bytes: msg("Memory"),
  max_nodes: msg("Nodes"),
  max_jobs: msg("Running jobs"),
  max_submitted: msg("Pending and running jobs"),
  gpu_hours: msg("Total GPU-hours"),
  max_wall_s: msg("Maximum run time"),
};
/** When the scheduler applies changed limits. */
export type LimitsApplied = Me["platform"]["limits_applied"];

/** When changed limits apply, as a sentence. */
export function limitsApplied(applied: LimitsApplied): string {
  if (applied === "at_once") return i18next.t("Applied at once; running jobs continue.");
  return applied === "after_sync" ? i18next.t("Applied to Slurm at the next sync.") : i18next.t("The scheduler holds no limits of projects.");
}

/** The message after limits were saved. */
export function limitsSaved(applied: LimitsApplied): string {
  return `${i18next.t("Limits saved.")} ${limitsApplied(applied)}`;
}

const TYPED = "max_gpus_by_type.";

export interface LimitRow {
  name: string;
  title: string;
  /** The limit; null: no limit. */
  most: number | null;
  used: number | null;
  /** The limit in the scheduler where it differs until the next sync; else null. */
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

/** Resources with a limit or in use, those with a limit first. */
export function limitRows({ limits, use }: ProjectLimits): LimitRow[] {
  const most = new Map<string, number>();
  for (const name of Object.keys(TITLES)) {
    const value = limits[name as keyof typeof limits];
    if (typeof value === "number") most.set(name, value);
    if (name === "max_gpus") for (const [type, count] of Object.entries(limits.max_gpus_by_type)) most.set(TYPED + type, count);
  }
  const usage = new Map<string, LimitUse>(use.map((entry) => [entry.limit, entry]));
  const names = [...most.keys(), ...use.filter((entry) => entry.used > 0 && !most.has(entry.limit)).map((entry) => entry.limit)];
  return names.map((name) => {
    const used = usage.get(name);
    const limit = most.get(name) ?? null;
    return {
      name,
      title: limitTitle(name),
      most: limit,
      used: used?.used ?? null,
      held: used && used.maximum !== limit ? used.maximum : null,
      by: Object.entries(used?.by_user ?? {}).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])),
    };
  });
}

/** This month and those before it, newest first, as the platform names them: in UTC. */
export function lastMonths(now: Date, count: number): string[] {
  return Array.from({ length: count }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}
