/** The switches of a network as a tree. */

export interface Branch<Switch, Node> {
  name: string;
  /** Null for the nodes that are connected to no known switch. */
  content: Switch | null;
  below: Branch<Switch, Node>[];
  nodes: Node[];
}

/**
 * The roots with everything below them, in the order of the lists. Nodes without a known switch are in a last branch
 * without a name.
 */
export function treeOf<Switch extends { name: string; parent: string | null }, Node>(
  switches: readonly Switch[],
  nodes: readonly Node[],
  leafOf: (node: Node) => string | null | undefined,
): Branch<Switch, Node>[] {
  const branches = new Map<string, Branch<Switch, Node>>();
  for (const content of switches) branches.set(content.name, { name: content.name, content, below: [], nodes: [] });
  const roots: Branch<Switch, Node>[] = [];
  for (const { name, parent } of switches) {
    const branch = branches.get(name);
    if (branch !== undefined) (branches.get(parent ?? "")?.below ?? roots).push(branch);
  }
  const others: Node[] = [];
  for (const node of nodes) (branches.get(leafOf(node) ?? "")?.nodes ?? others).push(node);
  return others.length === 0 ? roots : [...roots, { name: "", content: null, below: [], nodes: others }];
}

/** The branch without switches below which there is no node; null if nothing is left. */
export function pruned<Switch, Node>(branch: Branch<Switch, Node>): Branch<Switch, Node> | null {
  const below = branch.below.map(pruned).filter((each) => each !== null);
  return branch.nodes.length + below.length === 0 ? null : { ...branch, below };
}

/** The nodes of a branch and of all below it, in the order of the tree. */
export function nodesBelow<Switch, Node>(branch: Branch<Switch, Node>): Node[] {
  return [...branch.nodes, ...branch.below.flatMap(nodesBelow)];
}

/** The branches that have nodes. */
export function leavesOf<Switch, Node>(branches: readonly Branch<Switch, Node>[]): Branch<Switch, Node>[] {
  return branches.flatMap((branch) => [...(branch.nodes.length > 0 ? [branch] : []), ...leavesOf(branch.below)]);
}
