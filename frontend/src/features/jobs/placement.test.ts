import { describe, expect, it } from "vitest";
import type { JobPlacement } from "@/api/topology";
import { arcsOf, isNetworkKnown, jobTree, linesOf, loadsOf, orderOf, ranksPerNode, ranksText, uplinkLoads } from "./placement";

/** Four nodes whose names alternate between two leaves, and one below another switch. */
const PLACEMENT: JobPlacement = {
  given: ["n0", "n1", "n2", "n3", "n10"],
  order: ["n0", "n2", "n1", "n3", "n10"],
  crossings: { given: 5, chosen: 3, best: 3 },
  busiest_uplink: { given: 2, chosen: 1, best: 1 },
  switches: [
    { name: "core", parent: null },
    { name: "left", parent: "core" },
    { name: "leaf0", parent: "left" },
    { name: "leaf1", parent: "left" },
    { name: "leaf2", parent: "core" },
  ],
  leaves: { n0: "leaf0", n2: "leaf0", n1: "leaf1", n3: "leaf1", n10: "leaf2" },
  bindings: [],
  reason: "",
};
const TREE = jobTree(PLACEMENT);

describe("the ring on the tree", () => {
  it("has a line for each switch and node, in the order of the tree", () => {
    expect(linesOf(TREE, false).map(({ key, level, above }) => [key, level, above])).toEqual([
      ["switch core", 0, -1], ["switch left", 1, 0], ["switch leaf0", 2, 1], ["node n0", 3, 2], ["node n2", 3, 2],
      ["switch leaf1", 2, 1], ["node n1", 3, 5], ["node n3", 3, 5], ["switch leaf2", 1, 0], ["node n10", 2, 8],
    ]);
  });

  it("crosses leaves as often as the platform counts", () => {
    const lines = linesOf(TREE, false);
    const crossings = (order: string[]) => arcsOf(order, lines).filter(({ crosses }) => crosses).reduce((sum, { count }) => sum + count, 0);
    expect(crossings(PLACEMENT.given)).toBe(PLACEMENT.crossings?.given);
    expect(crossings(PLACEMENT.order)).toBe(PLACEMENT.crossings?.chosen);
  });

  it("joins neighbours between folded leaves", () => {
    const lines = linesOf(TREE, true);
    expect(lines.map(({ branch }) => branch.name)).toEqual(["core", "left", "leaf0", "leaf1", "leaf2"]);
    expect(arcsOf(PLACEMENT.given, lines)).toEqual([{ from: 2, to: 3, count: 3, crosses: true }, { from: 3, to: 4, count: 1, crosses: true }, { from: 4, to: 2, count: 1, crosses: true }]);
    expect(arcsOf(PLACEMENT.order, lines)).toHaveLength(3);
  });

  it("loads the uplinks that the platform counts", () => {
    expect(Object.fromEntries(loadsOf(PLACEMENT.given, TREE))).toEqual({ core: 0, left: 1, leaf0: 2, leaf1: 2, leaf2: 1 });
    expect(Math.max(...loadsOf(PLACEMENT.order, TREE).values())).toBe(1);
  });

  it("shows no loads of uplinks that the platform counts otherwise, as for a mesh", () => {
    expect(uplinkLoads(PLACEMENT.given, TREE, 2)).toEqual(loadsOf(PLACEMENT.given, TREE));
    expect(uplinkLoads(PLACEMENT.given, TREE, 4).size).toBe(0);
    expect(uplinkLoads(PLACEMENT.given, TREE, null).size).toBe(0);
  });

  it("of one node has no arcs", () => {
    expect(arcsOf(["n0"], linesOf(TREE, false))).toEqual([]);
  });
});

describe("orderOf", () => {
  it("takes the chosen order as the best one where it costs as little", () => {
    expect(orderOf(PLACEMENT, "best")).toEqual(PLACEMENT.order);
  });

  it("computes the best order of a job that keeps the given one", () => {
    const kept = { ...PLACEMENT, order: PLACEMENT.given, crossings: { given: 5, chosen: 5, best: 3 }, busiest_uplink: { given: 2, chosen: 2, best: 1 } };
    expect(orderOf(kept, "best")).toEqual(["n0", "n2", "n1", "n3", "n10"]);
    expect(orderOf(kept, "chosen")).toEqual(PLACEMENT.given);
  });
});

it("keeps nodes that the topology does not contain", () => {
  const unknown = { ...PLACEMENT, leaves: {}, switches: [] };
  expect(linesOf(jobTree(unknown), false).map(({ node }) => node)).toEqual([null, "n0", "n1", "n2", "n3", "n10"]);
  expect([isNetworkKnown(unknown), isNetworkKnown(PLACEMENT)]).toEqual([false, true]);
});

it("names the ranks of nodes", () => {
  expect(ranksText(PLACEMENT.given, ["n3"], 8)).toBe("24–31");
  expect(ranksText(PLACEMENT.given, ["n0", "n1", "n10"], 1)).toBe("0–1,4");
  expect(ranksPerNode(PLACEMENT, { ranks_per_node: 8 })).toBe(8);
  expect(ranksPerNode(PLACEMENT, null)).toBe(1);
});
