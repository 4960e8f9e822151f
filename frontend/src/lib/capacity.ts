/** What the cluster has and how much of it is free, added up. */
import type { ClusterNode } from "@/api/types";
import { CLOSED } from "@/lib/nodes";

export interface Amount {
  total: number;
  used: number;
}

export interface Capacity {
  cpu: Amount;
  memory: Amount;
  /** By type; untyped GPUs are called "GPU". */
  gpus: Map<string, Amount>;
  /** Nodes that take work, of all. */
  nodes: { up: number; total: number };
}

/** Nodes that are closed offer nothing; what still runs there does not count as capacity. */
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
