import { describe, expect, it } from "vitest";
import { leavesOf, nodesBelow, pruned, treeOf } from "./switches";

const SWITCHES = [
  { name: "leaf1", parent: "core" },
  { name: "core", parent: null },
  { name: "leaf0", parent: "core" },
];
const LEAVES: Record<string, string> = { a: "leaf0", b: "leaf1", c: "leaf0" };
const tree = (nodes: string[], switches = SWITCHES) => treeOf(switches, nodes, (node) => LEAVES[node]);

describe("treeOf", () => {
  it("has the nodes below their switches, whatever the order of the switches is", () => {
    const [core, ...others] = tree(["c", "a", "b"]);
    expect(others).toEqual([]);
    expect(core?.name).toBe("core");
    expect(core?.below.map(({ name, nodes }) => [name, nodes])).toEqual([["leaf1", ["b"]], ["leaf0", ["c", "a"]]]);
    expect(core && nodesBelow(core)).toEqual(["b", "c", "a"]);
  });

  it("shows nodes that the topology does not contain in a last branch", () => {
    expect(tree(["x", "a", "y"]).at(-1)).toEqual({ name: "", content: null, below: [], nodes: ["x", "y"] });
    expect(tree(["x"], [])).toEqual([{ name: "", content: null, below: [], nodes: ["x"] }]);
  });

  it("shows a switch whose parent is missing as a root", () => {
    expect(tree(["a"], [{ name: "leaf0", parent: "gone" }]).map(({ name }) => name)).toEqual(["leaf0"]);
  });
});

it("leaves out switches without nodes", () => {
  const core = tree(["b"])[0];
  expect(core && pruned(core)?.below.map(({ name }) => name)).toEqual(["leaf1"]);
  const empty = tree([])[0];
  expect(empty && pruned(empty)).toBeNull();
});

it("lists the branches with nodes", () => {
  expect(leavesOf(tree(["a", "b", "x"])).map(({ name }) => name)).toEqual(["leaf1", "leaf0", ""]);
});
