/** Short sentences about jobs, shared by cards, tables and pages. */
import type { Job, Resources } from "@/api/types";
import { formatBytes, plural } from "@/lib/units";

/** "4 CPUs · 16 GB · 2 × a100", with the nodes in front if there are several. */
export function describeResources(resources: Resources): string {
  const { nodes, cpu, memory_bytes: memory, gpu, gres } = resources;
  const each = [
    plural(cpu, "CPU"),
    formatBytes(memory),
    ...(gpu.count > 0 ? [gpu.type ? `${gpu.count} × ${gpu.type}` : plural(gpu.count, "GPU")] : []),
    ...Object.entries(gres).map(([name, count]) => `${count} ${name}`),
  ].join(" · ");
  return nodes > 1 ? `${nodes} nodes × (${each})` : each;
}

/** How a program ended: "exit code 1", "signal 9"; empty if there is nothing to say. */
export function describeExit(job: Pick<Job, "exit_code" | "signal">): string {
  if (job.signal) return `signal ${job.signal}`;
  return job.exit_code === null ? "" : `exit code ${job.exit_code}`;
}

/** The nodes by name, or how many once there are too many to read. */
export function describeNodes(nodes: readonly string[]): string {
  return nodes.length <= 3 ? nodes.join(", ") : `${nodes.slice(0, 2).join(", ")} and ${nodes.length - 2} more`;
}

/** From the first moment of the program to its end, or to now. Null while it has not begun. */
export function runTimeBounds(job: Job): { from: string; to: string | null } | null {
  const from = job.started_at ?? job.allocated_at;
  return from ? { from, to: job.ended_at ?? null } : null;
}
