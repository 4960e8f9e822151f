import { expect, it } from "vitest";
import type { ClusterNode, Job } from "@/api/types";
import { costPerHour, describeGroup, divisorsNear, gpuTypes, initialRanks, losesState, ranksProblems, type RanksValues, shownGroups, toRanksFile } from "./ranks";

const NOW = new Date("2026-03-01T12:00:00Z");
const group = (id: string, state: Job["state"], created: string, ended: string | null = null): Job => ({ id, state, created_at: created, ended_at: ended }) as Job;
const shape = (nodes: number, each: number, gpu: { count: number; type: string | null }, cpu = 4) =>
  ({ distributed: { ranks_per_node: each }, resources: { nodes, cpu, gpu } }) as unknown as Job;
const node = (gpus: { type: string | null; used: number; total: number }[], cpu = 32, memory = 128) =>
  ({ gpus, cpu_total: cpu, memory_total_bytes: memory * 1024 ** 3 }) as unknown as ClusterNode;
const values: RanksValues = { ranks: 8, nodes: 2, gpu: "a100", cpu: 4, memory: "16G", duration: "2h", idle: "15m" };

it("shows groups that have not ended, and the last one for an hour if it failed", () => {
  const shown = (...groups: Job[]) => shownGroups(groups, NOW).map(({ id }) => id);
  const running = group("running", "RUNNING", "2026-03-01T10:00:00Z");
  const queued = group("queued", "QUEUED", "2026-03-01T11:30:00Z");
  const failed = group("failed", "NODE_FAILED", "2026-03-01T11:50:00Z", "2026-03-01T11:55:00Z");
  expect(shown(failed, queued, running)).toEqual(["failed", "running", "queued"]);
  expect(shown(queued, { ...failed, created_at: "2026-03-01T11:00:00Z" }, running)).toEqual(["running", "queued"]);
  expect(shown({ ...failed, ended_at: "2026-03-01T10:55:00Z" })).toEqual([]);
  expect(shown(group("released", "CANCELLED", "2026-03-01T11:50:00Z", "2026-03-01T11:55:00Z"))).toEqual([]);
});

it("describes a group and what an hour of it costs", () => {
  const gpus = shape(2, 4, { count: 4, type: "a100" });
  expect(describeGroup(gpus)).toBe("8 ranks · 2 nodes · 8 × a100");
  expect(costPerHour(gpus)).toBe("Uses 8 GPU-hours an hour");
  const cpus = shape(1, 2, { count: 0, type: null });
  expect(describeGroup(cpus)).toBe("2 ranks · 1 node");
  expect(costPerHour(cpus)).toBe("Uses 4 CPU-hours an hour");
});

it("asks before a release only where ranks have something in memory", () => {
  expect(losesState({ state: "QUEUED" })).toBe(false);
  expect(losesState({ state: "RUNNING" })).toBe(true);
  expect(losesState({ state: "UNKNOWN" })).toBe(true);
});

it("names the numbers of nodes by which the ranks can be divided", () => {
  expect(ranksProblems({ ...values, ranks: 16, nodes: 3 }).nodes).toBe("16 ranks cannot be divided by 3 nodes. Possible: 1, 2, 4, 8, 16.");
  expect(divisorsNear(360, 7)).toEqual([4, 5, 6, 8, 9, 10]);
  expect(ranksProblems(values)).toEqual({});
});

it("finds durations and amounts that cannot be read", () => {
  expect(Object.keys(ranksProblems({ ...values, duration: "soon", idle: "0", memory: "much" }))).toEqual(["memory", "duration", "idle"]);
  expect(ranksProblems({ ...values, idle: " " })).toEqual({});
});

it("begins with one rank for each free GPU of the type with most free ones", () => {
  const nodes = [node([{ type: "a100", used: 1, total: 4 }], 16, 64), node([{ type: "l4", used: 1, total: 2 }])];
  expect(gpuTypes(nodes)).toEqual([{ type: "a100", free: 3, total: 4, perNode: 4 }, { type: "l4", free: 1, total: 2, perNode: 2 }]);
  expect(initialRanks(nodes)).toMatchObject({ ranks: 3, nodes: 1, gpu: "a100", cpu: 4, memory: "16G", idle: "15m" });
  expect(initialRanks([node([])])).toMatchObject({ ranks: 2, gpu: null });
});

it("writes the request", () => {
  expect(toRanksFile(values)).toEqual({ ranks: 8, nodes: 2, gpu: "a100", cpu: 4, memory: "16G", max_duration: "2h", idle: "15m" });
  expect(toRanksFile({ ...values, gpu: null, idle: "" })).toEqual({ ranks: 8, nodes: 2, cpu: 4, memory: "16G", max_duration: "2h", idle: "off" });
});
