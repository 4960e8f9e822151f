import { describe, expect, it } from "vitest";
import type { ClusterTopology, TopologyNode } from "@/api/topology";
import { branchName, foundIn, freeText, isUnfolded, nodeText, pathOf, totalsIn, usageOf } from "./topology";

const node = (name: string, leaf: string | null, change: Partial<TopologyNode> = {}): TopologyNode => ({
  name, switch: leaf, source: null, state: "idle", gpus: 4, free_gpus: 4, mine: false, used: false, numa_nodes: null, gpu_links: null, nics: null, ...change,
});
const TOPOLOGY: ClusterTopology = {
  switches: [
    { name: "core", parent: null, kind: "switch", source: "topology.conf, line 3" },
    { name: "leaf0", parent: "core", kind: "switch", source: "topology.conf, line 1" },
    { name: "leaf1", parent: "core", kind: "switch", source: "topology.conf, line 2" },
  ],
  nodes: [
    node("gpu00", "leaf0", { mine: true, used: true, free_gpus: 2 }),
    node("gpu01", "leaf1", { used: true, free_gpus: 0 }),
    node("gpu02", "leaf0"),
    node("gpu03", "leaf1", { state: "down", free_gpus: 0 }),
    node("login", null, { gpus: 0, free_gpus: 0 }),
  ],
  sources: [],
  unknown_nodes: ["login"],
};

it("distinguishes own jobs from those of others, and free nodes from closed ones", () => {
  expect(TOPOLOGY.nodes.map(usageOf)).toEqual(["mine", "others", "free", "closed", "free"]);
});

it("adds up what is free below each switch", () => {
  const tree = foundIn(TOPOLOGY, "");
  const totals = totalsIn(tree);
  const core = tree[0];
  if (core === undefined) throw new Error("no root");
  expect(totals.get(core)).toEqual({ nodes: 4, gpus: 16, freeGpus: 6, usage: { mine: 1, others: 1, free: 1, closed: 1 } });
  expect(core.below.map((leaf) => totals.get(leaf)?.freeGpus)).toEqual([6, 0]);
});

it("says as text what the picture shows", () => {
  const tree = foundIn(TOPOLOGY, "");
  expect([...totalsIn(tree)].map(([branch, totals]) => `${branchName(branch)}: ${freeText(totals)}`)).toEqual([
    "core: 6 of 16 GPUs free", "leaf0: 6 of 8 GPUs free", "leaf1: 0 of 8 GPUs free", "Without a switch: 1 of 1 nodes free",
  ]);
  expect(TOPOLOGY.nodes.slice(0, 2).map(nodeText)).toEqual(["gpu00: 2 of 4 GPUs free, Own jobs", "gpu01: 0 of 4 GPUs free, Jobs of others"]);
});

describe("foundIn", () => {
  const names = (text: string) => foundIn(TOPOLOGY, text).map(function named(branch): unknown {
    return [branch.name, ...branch.below.map(named), ...branch.nodes.map(({ name }) => name)];
  });

  it("finds a node with the switches above it", () => {
    expect(names(" GPU02 ")).toEqual([["core", ["leaf0", "gpu02"]]]);
  });

  it("finds a switch with everything below it", () => {
    expect(names("leaf1")).toEqual([["core", ["leaf1", "gpu01", "gpu03"]]]);
  });

  it("finds nodes without a switch", () => {
    expect(names("login")).toEqual([["", "login"]]);
    expect(names("nothing")).toEqual([]);
  });
});

it("folds the leaves of large clusters at first, and the switches above very many leaves", () => {
  const [core] = foundIn(TOPOLOGY, "");
  const leaf = core?.below[0];
  if (core === undefined || leaf === undefined) throw new Error("no tree");
  expect([isUnfolded(leaf, 64, 8, 2), isUnfolded(leaf, 1_000, 32, 2)]).toEqual([true, false]);
  expect([isUnfolded(core, 1_000, 32, 1), isUnfolded(core, 10_000, 313, 1), isUnfolded(core, 10_000, 313, 2)]).toEqual([true, true, false]);
});

it("names the switches above a node", () => {
  expect(TOPOLOGY.nodes.map((each) => pathOf(TOPOLOGY, each).join(" > "))).toEqual(["core > leaf0", "core > leaf1", "core > leaf0", "core > leaf1", ""]);
});
