/** The ranks of a job on the switches that connect its nodes, and the ring of ranks that follow each other. */
import type { JobPlacement } from "@/api/topology";
import { type Branch, leavesOf, nodesBelow, pruned, treeOf } from "@/lib/switches";

/** The order that the scheduler gave, the one that was chosen, and the best one that is known. */
export type OrderName = "given" | "chosen" | "best";
export const ORDERS: readonly OrderName[] = ["given", "chosen", "best"];

type Switches = JobPlacement["switches"][number];
export type JobBranch = Branch<Switches, string>;

/** The switches of the job's nodes with the nodes below them, in the order of their names. */
export function jobTree({ switches, given, leaves }: Pick<JobPlacement, "switches" | "given" | "leaves">): JobBranch[] {
  const nodes = [...given].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return treeOf(switches, nodes, (node) => leaves[node])
    .map(pruned)
    .filter((branch) => branch !== null);
}

/**
 * The nodes in an order. The best known order is the chosen or the given one where that costs as little, else the
 * depth-first order over the tree, the optimum for one ring.
 */
export function orderOf(placement: JobPlacement, name: OrderName): string[] {
  const { crossings, busiest_uplink: busiest, given, order } = placement;
  if (name === "given") return given;
  if (name === "chosen" || crossings === null || busiest === null) return order;
  const isBest = (other: "given" | "chosen") => crossings[other] === crossings.best && busiest[other] === busiest.best;
  if (isBest("chosen")) return order;
  return isBest("given") ? given : depthFirst(placement);
}

/** The switches below each switch, and the nodes of each leaf, as the given order first reaches them. */
function depthFirst(placement: JobPlacement): string[] {
  const place = new Map(placement.given.map((node, index) => [node, index]));
  const first = new Map<JobBranch, number>();
  const placeOf = (node: string) => place.get(node) ?? 0;
  const tree = jobTree(placement);
  const visit = (branch: JobBranch): number => {
    const reached = Math.min(...branch.nodes.map(placeOf), ...branch.below.map(visit));
    first.set(branch, reached);
    return reached;
  };
  tree.forEach(visit);
  const sorted = (branches: readonly JobBranch[]) => [...branches].sort((a, b) => (first.get(a) ?? 0) - (first.get(b) ?? 0));
  const walk = (branch: JobBranch): string[] => [...branch.nodes.toSorted((a, b) => placeOf(a) - placeOf(b)), ...sorted(branch.below).flatMap(walk)];
  return sorted(tree).flatMap(walk);
}

/** The line of a switch, of a node, or of a leaf whose nodes are folded. */
export interface Line {
  key: string;
  level: number;
  branch: JobBranch;
  /** Null for a switch. */
  node: string | null;
  /** The line of the switch above it; -1 for a root. */
  above: number;
}

/** The lines of the picture from top to bottom. */
export function linesOf(tree: readonly JobBranch[], folded: boolean): Line[] {
  const lines: Line[] = [];
  const add = (branch: JobBranch, level: number, above: number) => {
    const at = lines.length;
    lines.push({ key: `switch ${branch.name}`, level, branch, node: null, above });
    for (const each of branch.below) add(each, level + 1, at);
    if (!folded) for (const node of branch.nodes) lines.push({ key: `node ${node}`, level: level + 1, branch, node, above: at });
  };
  for (const branch of tree) add(branch, 0, -1);
  return lines;
}

/** Neighbours in the ring: from one line to another, and how many they are. */
export interface Arc {
  from: number;
  to: number;
  count: number;
  /** Whether they are on different leaves. */
  crosses: boolean;
}

/** The ring over the nodes in an order, drawn between the lines; neighbours on one folded leaf are left out. */
export function arcsOf(order: readonly string[], lines: readonly Line[]): Arc[] {
  const lineOf = new Map<string, number>();
  const leafOf = new Map<string, string>();
  for (const [index, { branch, node }] of lines.entries()) {
    for (const name of node === null ? branch.nodes : [node]) {
      lineOf.set(name, index);
      leafOf.set(name, branch.name);
    }
  }
  const arcs = new Map<string, Arc>();
  for (const [one, other] of ringOf(order)) {
    const [from, to] = [lineOf.get(one), lineOf.get(other)];
    if (from === undefined || to === undefined || from === to) continue;
    const key = `${Math.min(from, to)} ${Math.max(from, to)}`;
    const arc = arcs.get(key);
    if (arc === undefined) arcs.set(key, { from, to, count: 1, crosses: leafOf.get(one) !== leafOf.get(other) });
    else arc.count += 1;
  }
  return [...arcs.values()];
}

function ringOf(order: readonly string[]): [string, string][] {
  if (order.length < 2) return [];
  return order.map((node, index) => [node, order[(index + 1) % order.length] ?? node]);
}

/**
 * Loads of the uplinks by switch name, for the traffic of a ring. Empty if the highest of them differs from `busiest`, the value of
 * the platform (null: unknown): with a mesh other ranks communicate, too, so that these loads would be wrong.
 */
export function uplinkLoads(order: readonly string[], tree: readonly JobBranch[], busiest: number | null): Map<string, number> {
  const loads = loadsOf(order, tree);
  return Math.max(0, ...loads.values()) === busiest ? loads : new Map<string, number>();
}

/** The larger of both directions on the uplink of each switch, by its name: how many neighbours exchange data over it. */
export function loadsOf(order: readonly string[], tree: readonly JobBranch[]): Map<string, number> {
  const switches = new Map<string, ReadonlySet<string>>();
  const paths = new Map<string, readonly string[]>();
  const visit = (branch: JobBranch, path: readonly string[]) => {
    const here = [...path, branch.name];
    switches.set(branch.name, new Set(nodesBelow(branch)));
    for (const node of branch.nodes) paths.set(node, here);
    for (const each of branch.below) visit(each, here);
  };
  for (const branch of tree) visit(branch, []);
  const up = new Map<string, number>();
  const down = new Map<string, number>();
  const add = (loads: Map<string, number>, name: string) => loads.set(name, (loads.get(name) ?? 0) + 1);
  for (const [one, other] of ringOf(order)) {
    for (const name of paths.get(one) ?? []) if (switches.get(name)?.has(other) !== true) add(up, name);
    for (const name of paths.get(other) ?? []) if (switches.get(name)?.has(one) !== true) add(down, name);
  }
  return new Map([...switches.keys()].map((name) => [name, Math.max(up.get(name) ?? 0, down.get(name) ?? 0)]));
}

/** "0–7,12": the places of nodes in an order, or the numbers of their ranks. */
export function ranksText(order: readonly string[], nodes: readonly string[], each: number): string {
  const wanted = new Set(nodes);
  const places = order.flatMap((node, index) => (wanted.has(node) ? [index] : []));
  const runs: [number, number][] = [];
  for (const place of places) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] + 1 === place) last[1] = place;
    else runs.push([place, place]);
  }
  const text = (first: number, last: number) => (first === last ? String(first) : `${first}–${last}`);
  return runs.map(([first, last]) => text(first * each, (last + 1) * each - 1)).join(",");
}

/** The number of ranks on each node: that of the bindings, else that of the job; 1 for other programs. */
export function ranksPerNode(placement: JobPlacement, distributed: { ranks_per_node: number } | null): number {
  const bound = placement.bindings.length / Math.max(1, placement.order.length);
  return distributed?.ranks_per_node ?? (Number.isInteger(bound) && bound > 0 ? bound : 1);
}

/** Larger jobs have their nodes folded into the leaves at first. */
export const MOST_NODES = 64;

/** Whether it is known which nodes are connected to one switch. */
export function isNetworkKnown(placement: JobPlacement): boolean {
  return placement.switches.length > 0 && leavesOf(jobTree(placement)).some(({ content }) => content !== null);
}
