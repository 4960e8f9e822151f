/** Labels, filters and load of nodes. */
import type { ClusterNode } from "@/api/types";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";

export type NodeState = ClusterNode["state"];

/** The labels are keys: `t(look.label)`. */
const LOOKS: Record<NodeState, { label: string; tone: Tone }> = {
  idle: { label: msg("Idle"), tone: "good" },
  mixed: { label: msg("Mixed"), tone: "active" },
  allocated: { label: msg("Allocated"), tone: "active" },
  draining: { label: msg("Draining"), tone: "warn" },
  drained: { label: msg("Drained"), tone: "warn" },
  down: { label: msg("Down"), tone: "bad" },
  reserved: { label: msg("Reserved"), tone: "neutral" },
  powered_off: { label: msg("Powered off"), tone: "neutral" },
  unknown: { label: msg("Unknown"), tone: "neutral" },
};

/** Label and tone of a state; a state of a newer release is shown as it is. */
export function nodeLook(state: string): { label: string; tone: Tone } {
  return known(LOOKS, state, { label: state, tone: "neutral" });
}

/** States in which a node accepts no new jobs. */
export const CLOSED: ReadonlySet<NodeState> = new Set<NodeState>(["draining", "drained", "down"]);

export interface NodeFilter {
  /** Part of a name, feature, GPU type or reason, case-insensitive. */
  text: string;
  state: NodeState | null;
  partition: string | null;
}

export const NO_FILTER: NodeFilter = { text: "", state: null, partition: null };

export function filterNodes(nodes: readonly ClusterNode[], filter: NodeFilter): ClusterNode[] {
  const search = filter.text.trim().toLowerCase();
  return nodes.filter(
    (node) =>
      (filter.state === null || node.state === filter.state) &&
      (filter.partition === null || node.partitions.includes(filter.partition)) &&
      (search === "" || searchTexts(node).some((text) => text.toLowerCase().includes(search))),
  );
}

function searchTexts(node: ClusterNode): string[] {
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

/** The states that occur, in the order of the table above, unknown ones last. */
export function statesOf(nodes: readonly ClusterNode[]): NodeState[] {
  const occurring = [...new Set(nodes.map((node) => node.state))];
  const known = Object.keys(LOOKS) as NodeState[];
  return [...known.filter((state) => occurring.includes(state)), ...occurring.filter((state) => !known.includes(state))];
}

/** What a map of nodes shows. */
export type Resource = "cpu" | "memory" | "gpu";

/** The allocated share of a resource of a node, 0 to 1; 0 for a node without it. */
export function allocatedShare(node: ClusterNode, resource: Resource): number {
  const [used, total] =
    resource === "cpu" ? [node.cpu_used, node.cpu_total]
    : resource === "memory" ? [node.memory_used_bytes, node.memory_total_bytes]
    : [sumOf(node.gpus.map((gpu) => gpu.used)), sumOf(node.gpus.map((gpu) => gpu.total))];
  return total === 0 ? 0 : Math.min(1, used / total);
}

function sumOf(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The allocated share of a node, 0 to 1: of its GPUs where it has any, else of its CPUs. */
export function busyShare(node: ClusterNode): number {
  return allocatedShare(node, node.gpus.some((gpu) => gpu.total > 0) ? "gpu" : "cpu");
}
