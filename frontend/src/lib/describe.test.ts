import { afterEach, describe, expect, it } from "vitest";
import type { Job } from "@/api/types";
import { setLanguage } from "@/i18n";
import { describeExchange, describeRanks, describeResources, describeTimeLimit, nameOfJob } from "./describe";

Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
afterEach(() => setLanguage("en"));

const job = (nodes: number, distributed: Partial<NonNullable<Job["distributed"]>> | null): Job =>
  ({
    resources: { nodes },
    distributed: distributed && { ranks_per_node: 2, backend: "auto", strategy: "allreduce", compress: "none", ...distributed },
  }) as Job;

describe("the ranks of a job", () => {
  it("are counted over all nodes", () => {
    expect(describeRanks(job(2, {}))).toBe("4 ranks: 2 on each of 2 nodes");
    expect(describeRanks(job(1, {}))).toBe("2 ranks");
    expect(describeRanks(job(1, { ranks_per_node: 1 }))).toBe("1 rank");
    expect(describeRanks(job(2, null))).toBe("");
  });

  it("show communication options other than the defaults", () => {
    expect(describeExchange(job(2, {}))).toBe("");
    expect(describeExchange(job(2, { backend: "gloo", compress: "fp16" }))).toBe("gloo, fp16");
    expect(describeExchange(job(2, null))).toBe("");
  });
});

it("tells requested amounts from those on which the scheduler decides", async () => {
  const resources = (change: Partial<Job["resources"]>) =>
    describeResources({ nodes: 1, cpu: 1, memory_bytes: 2 ** 31, memory_request: "amount", gpu: { count: 0, type: null }, gres: {}, ...change } as Job["resources"]).replaceAll("\u00a0", " ");
  expect(resources({})).toBe("1 CPU · 2 GiB");
  expect(resources({ memory_request: "default" })).toBe("1 CPU · 2 GiB by default");
  expect(resources({ memory_request: "all" })).toBe("1 CPU · all memory");
  expect(resources({ memory_request: "default", memory_bytes: 0 })).toBe("1 CPU");
  expect(describeTimeLimit({ max_duration_s: 86_400, max_duration_requested: true })).not.toContain("by default");
  expect(describeTimeLimit({ max_duration_s: 86_400, max_duration_requested: false })).toContain(" by default");
  await setLanguage("de");
  expect(resources({ memory_request: "default" })).toContain("2 GiB als Vorgabe");
});

it("names a task of an array by its number", () => {
  expect(nameOfJob({ name: "train", array_task_id: null })).toBe("train");
  expect(nameOfJob({ name: "train", array_task_id: 0 })).toBe("train · task 0");
});

it("names the ranks of a session in the selected language, and no other job", async () => {
  const ranks = { name: "Ranks of notebook", array_task_id: null, session_id: "s1" };
  expect(nameOfJob(ranks)).toBe("Ranks of notebook");
  await setLanguage("de");
  expect(nameOfJob(ranks)).toBe("Ranks von notebook");
  expect(nameOfJob({ ...ranks, session_id: null })).toBe("Ranks of notebook");
});
