import { expect, test } from "vitest";
import type { ClusterNode } from "@/api/types";
import { busyShare, filterNodes, NO_FILTER, partitionsOf, statesOf } from "./nodes";

function node(name: string, fields: Partial<ClusterNode> = {}): ClusterNode {
  return {
    name,
    cluster: "local",
    state: "idle",
    reason: null,
    cpu_total: 8,
    cpu_used: 2,
    memory_total_bytes: 1,
    memory_used_bytes: 0,
    gpus: [],
    gres: [],
    features: [],
    partitions: ["gpu"],
    address: null,
    power_w: null,
    cpu_power_w: null,
    scheduler_state: null,
    seen_at: "2026-01-01T00:00:00Z",
    ...fields,
  };
}

const NODES = [
  node("n1", { gpus: [{ type: "h200", total: 4, used: 1 }], partitions: ["gpu", "debug"] }),
  node("n2", { state: "drained", reason: "fan is broken" }),
  node("n10", { features: ["NVLink"], partitions: ["big"] }),
];

const names = (nodes: ClusterNode[]) => nodes.map((each) => each.name);

test("text is searched in names, features, GPU types and reasons", () => {
  expect(names(filterNodes(NODES, { ...NO_FILTER, text: "n1" }))).toEqual(["n1", "n10"]);
  expect(names(filterNodes(NODES, { ...NO_FILTER, text: " nvlink" }))).toEqual(["n10"]);
  expect(names(filterNodes(NODES, { ...NO_FILTER, text: "H200" }))).toEqual(["n1"]);
  expect(names(filterNodes(NODES, { ...NO_FILTER, text: "fan" }))).toEqual(["n2"]);
  expect(filterNodes(NODES, { ...NO_FILTER, text: "zzz" })).toEqual([]);
});

test("state and partition narrow further", () => {
  expect(names(filterNodes(NODES, { ...NO_FILTER, partition: "gpu" }))).toEqual(["n1", "n2"]);
  expect(names(filterNodes(NODES, { text: "", partition: "gpu", state: "drained" }))).toEqual(["n2"]);
});

test("choices are the occurring values", () => {
  expect(partitionsOf(NODES)).toEqual(["big", "debug", "gpu"]);
  expect(statesOf(NODES)).toEqual(["idle", "drained"]);
});

test("the load of a node is that of its GPUs, else of its CPUs", () => {
  expect(NODES.map(busyShare)).toEqual([0.25, 0.25, 0.25]);
  expect(busyShare(node("x", { cpu_total: 0 }))).toBe(0);
});
