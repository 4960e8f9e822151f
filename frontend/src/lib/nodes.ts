/** How nodes are shown, and which of many are looked for. */
import type { ClusterNode } from "@/api/types";
import { msg } from "@/i18n/msg";
import type { Tone } from "@/lib/states";

export type NodeState = ClusterNode["state"];

/** The labels are keys: `t(look.label)`. */
export const NODE_LOOKS: Record<NodeState, { label: string; tone: Tone }> = {
  idle: { label: msg("Idle"), tone: "good" },
  mixed: { label: msg("Partly used"), tone: "active" },
  allocated: { label: msg("Fully used"), tone: "active" },
  draining: { label: msg("Draining"), tone: "warn" },
  drained: { label: msg("Drained"), tone: "warn" },
  down: { label: msg("Down"), tone: "bad" },
  reserved: { label: msg("Reserved"), tone: "neutral" },
  powered_off: { label: msg("Powered off"), tone: "neutral" },
  unknown: { label: msg("Unknown"), tone: "neutral" },
};

/** States in which a node gives nothing to new jobs. */
export const CLOSED: ReadonlySet<NodeState> = new Set<NodeState>(["draining", "drained", "down"]);

export interface NodeFilter {
  /** Any part of a name, feature, GPU type or reason, without regard to case. */
  text: string;
  state: NodeState | null;
  partition: string | null;
}

export const NO_FILTER: NodeFilter = { text: "", state: null, partition: null };

export function filterNodes(nodes: readonly ClusterNode[], filter: NodeFilter): ClusterNode[] {
  const wanted = filter.text.trim().toLowerCase();
  return nodes.filter(
    (node) =>
      (filter.state === null || node.state === filter.state) &&
      (filter.partition === null || node.partitions.includes(filter.partition)) &&
      (wanted === "" || wordsOf(node).some((word) => word.toLowerCase().includes(wanted))),
  );
}

function wordsOf(node: ClusterNode): string[] {
  return [
    node.name,
    node.reason ?? "",
    ...node.features,
    ...node.gpus.map((gpu) => gpu.type ?? ""),
    ...node.gres.map((gres) => gres.name),
  ];
}

export function partitionsOf(nodes: readonly ClusterNode[]): string[] {
  return [...new Set(nodes.flatMap((node) => node.partitions))].sort();
}

/** The states that occur, in the order of the table above. */
export function statesOf(nodes: readonly ClusterNode[]): NodeState[] {
  const found = new Set(nodes.map((node) => node.state));
  return (Object.keys(NODE_LOOKS) as NodeState[]).filter((state) => found.has(state));
}

/** How busy a node is, 0 to 1: by its GPUs where it has some, else by its CPUs. */
export function busyShare(node: ClusterNode): number {
  const total = node.gpus.reduce((sum, gpu) => sum + gpu.total, 0);
  if (total > 0) return node.gpus.reduce((sum, gpu) => sum + gpu.used, 0) / total;
  return node.cpu_total === 0 ? 0 : node.cpu_used / node.cpu_total;
}
