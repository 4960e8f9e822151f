/** Short descriptions of jobs for cards, tables and pages. */
import i18next from "i18next";
import type { Job, Resources } from "@/api/types";
import { formatDuration } from "@/lib/time";
import { formatBytes } from "@/lib/units";

/** The name that the platform gives to the ranks of a session. */
const RANKS_OF = /^Ranks of (.+)$/;

/** The name of a job; of a task of an array also its number, and of a session's ranks in the selected language. */
export function nameOfJob(job: Pick<Job, "name" | "array_task_id"> & Partial<Pick<Job, "session_id">>): string {
  if (job.array_task_id !== null) return `${job.name} · ${i18next.t("task {{number}}", { number: job.array_task_id })}`;
  const session = typeof job.session_id === "string" ? RANKS_OF.exec(job.name)?.[1] : undefined;
  return session === undefined ? job.name : i18next.t("Ranks of {{name}}", { name: session });
}

/** "4 CPUs · 16 GiB · 2 × a100", with the nodes in front if there are several. */
export function describeResources(resources: Resources): string {
  const { nodes, cpu, gpu, gres } = resources;
  const each = [
    i18next.t("{{count}} CPUs", { count: cpu }),
    ...describeMemory(resources),
    ...(gpu.count > 0 ? [gpu.type ? `${gpu.count} × ${gpu.type}` : i18next.t("{{count}} GPUs", { count: gpu.count })] : []),
    ...Object.entries(gres).map(([name, count]) => `${count} ${name}`),
  ].join(" · ");
  return nodes > 1 ? i18next.t("{{nodes}} nodes × ({{each}})", { nodes, each }) : each;
}

/** "16 GiB", "12 GiB by default" or "all memory"; empty where the amount is unknown. */
function describeMemory({ memory_bytes: bytes, memory_request: request }: Resources): string[] {
  if (request === "all") return [i18next.t("all memory")];
  if (bytes === 0) return [];
  return [request === "default" ? i18next.t("{{amount}} by default", { amount: formatBytes(bytes) }) : formatBytes(bytes)];
}

/** "2 days", or "1 day by default" where the scheduler decides. */
export function describeTimeLimit(job: Pick<Job, "max_duration_s" | "max_duration_requested">): string {
  const amount = formatDuration(job.max_duration_s);
  return job.max_duration_requested ? amount : i18next.t("{{amount}} by default", { amount });
}

/** "4 ranks: 2 on each of 2 nodes"; empty for a job that is one program. */
export function describeRanks(job: Pick<Job, "distributed" | "resources">): string {
  if (job.distributed === null) return "";
  const { ranks_per_node: each } = job.distributed;
  const { nodes } = job.resources;
  const ranks = i18next.t("{{count}} ranks", { count: each * nodes });
  return nodes > 1 ? i18next.t("{{ranks}}: {{each}} on each of {{nodes}} nodes", { ranks, each, nodes }) : ranks;
}

/** Communication options other than the defaults: "gloo, fp16"; empty for defaults only. */
export function describeExchange(job: Pick<Job, "distributed">): string {
  if (job.distributed === null) return "";
  const { backend, strategy, compress } = job.distributed;
  return [backend === "auto" ? "" : backend, strategy === "allreduce" ? "" : strategy, compress === "none" ? "" : compress]
    .filter(Boolean)
    .join(", ");
}

/** The exit status of a program: "exit code 1", "signal 9"; empty where it is unknown. */
export function describeExit(job: Pick<Job, "exit_code" | "signal">): string {
  if (job.signal) return i18next.t("signal {{signal}}", { signal: job.signal });
  return job.exit_code === null ? "" : i18next.t("exit code {{code}}", { code: job.exit_code });
}

/** Start and end of the program; `to` is null while it runs, the result null before it starts. */
export function runTimeBounds(job: Job): { from: string; to: string | null } | null {
  const from = job.started_at ?? job.allocated_at;
  return from ? { from, to: job.ended_at ?? null } : null;
}
