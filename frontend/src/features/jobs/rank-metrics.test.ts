import { expect, it } from "vitest";
import type { RankMetrics } from "@/api/ranks";
import { columnsOf, figuresOf, linePath, quantitiesOf, type Row, rowsOf, sharesOverTime, spanOf, stragglersOf } from "./rank-metrics";

const at = (second: number) => new Date(Date.UTC(2026, 2, 1, 12, 0, second)).toISOString();
const rank = (number: number, node: string, utilizations: number[], straggler = false): RankMetrics["ranks"][number] => ({
  rank: number, node, node_number: 0, gpu: number, steps: 10, step_s: 0.2, own_s: 0.1, communicating: null, blocked: null,
  behind_s: straggler ? 0.04 : 0, straggler,
  points: utilizations.map((utilization, second) => ({ time: at(second * 10), utilization, memory_bytes: 1024 * (number + 1) })),
});
const metrics: RankMetrics = {
  nodes: [{
    node: "node01", number: 0, ranks: [0, 1], straggler: true, cpus: 4, memory_limit_bytes: 8192, gpus: 2,
    points: [0, 1, 2].map((second) => ({ time: at(second * 10), cpu: second, memory_bytes: 4096, gpu_utilization: second === 1 ? null : 0.5, gpu_memory_bytes: null })),
  }],
  ranks: [rank(0, "node01", [0.2, 0.4, 0.6]), rank(1, "node01", [1, 1, 1], true)],
};

it("has a row for each rank with a GPU of its own, and for each node", () => {
  expect(quantitiesOf(metrics)).toEqual(["gpu", "gpu-memory", "node-gpu", "cpu", "memory"]);
  expect(rowsOf(metrics, "gpu").map(({ name, node, straggler, limit }) => [name, node, straggler, limit])).toEqual([["Rank 0", "node01", false, 100], ["Rank 1", "node01", true, 100]]);
  expect(rowsOf(metrics, "gpu-memory").map(({ limit }) => limit)).toEqual([2048, 2048]);
  expect(rowsOf(metrics, "cpu").map(({ name, limit, straggler }) => [name, limit, straggler])).toEqual([["node01", 4, true]]);
});

it("shows nodes only where ranks have no GPUs", () => {
  const cpus: RankMetrics = { nodes: metrics.nodes.map((node) => ({ ...node, points: node.points.map((point) => ({ ...point, gpu_utilization: null })) })), ranks: metrics.ranks.map((one) => ({ ...one, points: [] })) };
  expect(quantitiesOf(cpus)).toEqual(["cpu", "memory"]);
  expect(quantitiesOf({ nodes: [], ranks: [] })).toEqual([]);
});

const first = (quantity: Parameters<typeof rowsOf>[1]): Row => rowsOf(metrics, quantity).slice(0, 1).reduce((row) => row);

it("draws all rows on one time axis, with gaps where nothing was measured", () => {
  const rows = rowsOf(metrics, "node-gpu");
  const span = { from: Date.parse(at(0)), to: Date.parse(at(20)) };
  expect(spanOf(rows)).toEqual(span);
  expect(linePath(first("node-gpu"), span, 100, 10)).toBe("M0 5M100 5");
  expect(linePath(first("cpu"), span, 100, 10)).toBe("M0 10L50 7.5L100 5");
  expect(columnsOf(rows)).toBe(3);
  expect(sharesOverTime(first("node-gpu"), span, 3)).toEqual([0.5, null, 0.5]);
  expect(sharesOverTime(first("gpu"), span, 2)).toEqual([0.2, 0.5]);
});

it("sums a row up, and says which ranks are slow", () => {
  expect(figuresOf(first("gpu"))).toEqual({ last: 60, mean: 40, peak: 60 });
  expect(figuresOf({ ...first("gpu"), points: [] })).toBeNull();
  expect(stragglersOf(metrics)).toEqual(["Rank 1 on node node01 is 40\u00a0ms slower in each step than the median of the others."]);
});
