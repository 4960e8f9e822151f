/** Limits of projects as people read them, and usage as a spreadsheet does. */
import type { LimitUse, ProjectLimits, UsageReport } from "@/api/projects";
import { durationWords } from "@/lib/time";
import { formatBytes, formatNumber } from "@/lib/units";

const TITLES: Record<string, string> = {
  max_gpus: "GPUs",
  max_cpus: "CPUs",
  max_memory_bytes: "Memory",
  max_nodes: "Nodes",
  max_jobs: "Running jobs",
  max_submitted: "Waiting and running jobs",
  gpu_hours: "GPU-hours in all",
  max_wall_s: "Longest job",
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

export function limitTitle(name: string): string {
  return name.startsWith(TYPED) ? `${name.slice(TYPED.length)} GPUs` : (TITLES[name] ?? name);
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

/** RFC 4180. The names of projects and users hold nothing that needs quotes. */
export function usageCsv(report: UsageReport): string {
  const lines = report.rows.map((row) => [report.month, row.project, row.user, row.jobs, row.cpu_hours, row.gpu_hours].join(","));
  return ["month,project,user,jobs,cpu_hours,gpu_hours", ...lines, ""].join("\r\n");
}
