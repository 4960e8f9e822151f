/** The cluster's total and used resources. */
import type { ClusterNode } from "@/api/types";
import { CLOSED } from "./nodes";

export interface Amount {
  total: number;
  used: number;
}

export interface Capacity {
  cpu: Amount;
  memory: Amount;
  /** By type; GPUs without a type are named "GPU". */
  gpus: Map<string, Amount>;
  /** Nodes that accept jobs, and all nodes. */
  nodes: { up: number; total: number };
}

/** Unavailable nodes do not count, even where jobs still run on them. */
export function capacityOf(nodes: readonly ClusterNode[]): Capacity {
  const up = nodes.filter((node) => !CLOSED.has(node.state));
  const gpus = new Map<string, Amount>();
  for (const gpu of up.flatMap((node) => node.gpus)) {
    const type = gpu.type ?? "GPU";
    const sum = gpus.get(type) ?? { total: 0, used: 0 };
    gpus.set(type, { total: sum.total + gpu.total, used: sum.used + gpu.used });
  }
  return {
    cpu: sumOf(up, (node) => [node.cpu_total, node.cpu_used]),
    memory: sumOf(up, (node) => [node.memory_total_bytes, node.memory_used_bytes]),
    gpus,
    nodes: { up: up.length, total: nodes.length },
  };
}

function sumOf(nodes: readonly ClusterNode[], pick: (node: ClusterNode) => [number, number]): Amount {
  return nodes.map(pick).reduce<Amount>(
    (sum, [total, used]) => ({ total: sum.total + total, used: sum.used + used }),
    { total: 0, used: 0 },
  );
}
