/** What the picture of the topology shows of switches and nodes. */
import i18next from "i18next";
import type { ClusterTopology, TopologyNode, TopologySwitch } from "@/api/topology";
import { msg } from "@/i18n/msg";
import { type Branch, nodesBelow, pruned, treeOf } from "@/lib/switches";
import type { Tone } from "@/lib/states";
import { CLOSED } from "./nodes";

export type NetworkBranch = Branch<TopologySwitch, TopologyNode>;

/** What a node is used for, as far as the user may know. */
export type Usage = "mine" | "others" | "free" | "closed";

/** In the order of bars and legend. The labels are keys: `t(look.label)`. */
export const USAGES: Record<Usage, { label: string; tone: Tone }> = {
  mine: { label: msg("Own jobs"), tone: "active" },
  others: { label: msg("Jobs of others"), tone: "neutral" },
  free: { label: msg("Free"), tone: "good" },
  closed: { label: msg("Accepts no jobs"), tone: "warn" },
};

export function usageOf(node: TopologyNode): Usage {
  if (node.mine) return "mine";
  if (node.used) return "others";
  return CLOSED.has(node.state) ? "closed" : "free";
}

export interface Totals {
  nodes: number;
  gpus: number;
  freeGpus: number;
  /** Number of nodes of each usage. */
  usage: Record<Usage, number>;
}

export function totalsOf(nodes: readonly TopologyNode[]): Totals {
  const totals: Totals = { nodes: nodes.length, gpus: 0, freeGpus: 0, usage: { mine: 0, others: 0, free: 0, closed: 0 } };
  for (const node of nodes) {
    totals.gpus += node.gpus;
    totals.freeGpus += node.free_gpus;
    totals.usage[usageOf(node)] += 1;
  }
  return totals;
}

/** The switches and nodes whose names contain the text: a switch with everything below it, a node with the switches above it. */
export function foundIn(topology: ClusterTopology, text: string): NetworkBranch[] {
  const search = text.trim().toLowerCase();
  const tree = treeOf(topology.switches, topology.nodes, (node) => node.switch);
  const matching = (branch: NetworkBranch): NetworkBranch =>
    branch.name.toLowerCase().includes(search) && branch.content !== null
      ? branch
      : { ...branch, below: branch.below.map(matching), nodes: branch.nodes.filter(({ name }) => name.toLowerCase().includes(search)) };
  return (search === "" ? tree : tree.map(matching)).map(pruned).filter((branch) => branch !== null);
}

/** More nodes are folded into their leaves at first. */
export const MOST_UNFOLDED = 64;
/** With more leaves, the switches above them are folded too. */
const MOST_LEAVES = 128;

/** Whether a branch is unfolded at first. */
export function isUnfolded(branch: NetworkBranch, nodes: number, leaves: number, level: number): boolean {
  if (branch.nodes.length > 0) return nodes <= MOST_UNFOLDED;
  return leaves <= MOST_LEAVES || level === 1;
}

/** The names of the switches from the root to a node. */
export function pathOf(topology: ClusterTopology, node: TopologyNode): string[] {
  const parents = new Map(topology.switches.map(({ name, parent }) => [name, parent]));
  const path: string[] = [];
  for (let name = node.switch; name !== null && parents.has(name) && !path.includes(name); name = parents.get(name) ?? null) path.unshift(name);
  return path;
}

/** "12 of 64 GPUs free", or the free nodes where there are no GPUs. */
export function freeText({ nodes, gpus, freeGpus, usage }: Totals): string {
  return gpus > 0
    ? i18next.t("{{free}} of {{total}} GPUs free", { free: freeGpus, total: gpus })
    : i18next.t("{{free}} of {{total}} nodes free", { free: usage.free, total: nodes });
}

/** "gpu03: 2 of 4 GPUs free, own jobs". */
export function nodeText(node: TopologyNode): string {
  const gpus = node.gpus > 0 ? [i18next.t("{{free}} of {{total}} GPUs free", { free: node.free_gpus, total: node.gpus })] : [];
  return `${node.name}: ${[...gpus, i18next.t(USAGES[usageOf(node)].label)].join(", ")}`;
}

export function branchName(branch: NetworkBranch): string {
  return branch.content === null ? i18next.t("Without a switch") : branch.name;
}

/** The totals of each branch, computed once for the tree. */
export function totalsIn(branches: readonly NetworkBranch[]): Map<NetworkBranch, Totals> {
  const totals = new Map<NetworkBranch, Totals>();
  const add = (branch: NetworkBranch) => {
    totals.set(branch, totalsOf(nodesBelow(branch)));
    branch.below.forEach(add);
  };
  branches.forEach(add);
  return totals;
}
