/** A job file in a line: "1 × a100 · 4 CPUs · 16 GiB · 4h". */
import i18next from "i18next";
import type { JobFile } from "@/api/types";
import { durationWords } from "@/lib/time";
import { formatBytes, parseMemory } from "@/lib/units";

interface Gpu {
  count: number;
  type?: string | null;
}

/** GPUs of a job file: 2, "2", "a100:2", or an object. */
export function gpuOf(value: unknown): Gpu {
  if (typeof value === "number") return { count: value };
  if (typeof value === "object" && value !== null && "count" in value) return value as Gpu;
  if (typeof value !== "string") return { count: 0 };
  const [count = "0", type] = value.split(":").reverse();
  return { count: Number(count) || 0, ...(type ? { type } : {}) };
}

/** CPUs on each node of a job file; 0 if it requests none. */
function cpusOf(resources: JobFile["resources"]): number {
  const { cpu, tasks_per_node: tasks, cpus_per_task: each } = resources ?? {};
  return cpu ?? (tasks || each ? (tasks ?? 1) * (each ?? 1) : 0);
}

export function describeFile(file: JobFile): string {
  const { nodes, memory, gpu } = (file.resources ?? {}) as { nodes?: number | null; memory?: number | string | null; gpu?: unknown };
  const cpus = cpusOf(file.resources);
  const { count, type } = gpuOf(gpu);
  const bytes = typeof memory === "string" ? parseMemory(memory) : memory;
  const limit = file.max_duration;
  return [
    nodes && nodes > 1 ? i18next.t("{{count}} nodes", { count: nodes }) : "",
    count > 0 ? (type ? `${count} × ${type}` : i18next.t("{{count}} GPUs", { count })) : "",
    cpus ? i18next.t("{{count}} CPUs", { count: cpus }) : "",
    memory === "all" ? i18next.t("all memory") : bytes ? formatBytes(bytes) : (memory ?? ""),
    typeof limit === "number" ? durationWords(limit) : (limit ?? ""),
  ]
    .filter(Boolean)
    .join(" · ");
}
