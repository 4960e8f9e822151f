import { expect, it } from "vitest";
import type { Job } from "@/api/types";
import { nodeChoices } from "./nodes";

const job = (id: string, nodes: string[], fields: Partial<Job> = {}): Job =>
  ({ id, name: id, nodes, actions: ["attach"], array_task_id: null, session_id: null, distributed: null, resources: { nodes: nodes.length }, ...fields }) as unknown as Job;

it("offers the nodes of a session and of its ranks, where a terminal can be opened", () => {
  const ranks = { session_id: "lab", distributed: { ranks_per_node: 2 } } as unknown as Partial<Job>;
  const choices = nodeChoices([job("lab", ["node01"]), job("g1", ["node02", "node03"], ranks), job("g2", ["node04"], { ...ranks, actions: [] }), job("g3", [], ranks)]);
  expect(choices).toEqual([
    { group: "lab", items: [{ value: "lab node01", label: "node01" }] },
    { group: "Ranks: 4 ranks: 2 on each of 2 nodes", items: [{ value: "g1 node02", label: "node02" }, { value: "g1 node03", label: "node03" }] },
  ]);
});
