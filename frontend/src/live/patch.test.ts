import { describe, expect, it } from "vitest";
import type { Job, JobEvent } from "@/api/types";
import { isJobEvent, patchJob, patchPage, replaceJob, uniqueJobs } from "./patch";

const job = (change: Partial<Job>): Job => ({ id: "a", state: "QUEUED", version: 3, nodes: [], name: "x", ...change }) as Job;
const event = (data: Record<string, unknown>, id = "a"): JobEvent => ({
  id: 9,
  time: "2026-03-01T12:00:00Z",
  kind: "job.state",
  job_id: id,
  owner: "mira",
  project: "p",
  data,
});

describe("patchJob", () => {
  it("applies the known fields of the event", () => {
    const patched = patchJob(job({}), event({ state: "RUNNING", version: 4, nodes: ["n1"], evil: 1, previous: "QUEUED" }));
    expect(patched).toEqual(job({ state: "RUNNING", version: 4, nodes: ["n1"] }));
  });

  it("ignores older events and other jobs", () => {
    const known = job({});
    expect(patchJob(known, event({ state: "SUBMITTING", version: 2 }))).toBe(known);
    expect(patchJob(known, event({ state: "RUNNING", version: 3 }))).toBe(known);
    expect(patchJob(known, event({ state: "RUNNING", version: 9 }, "b"))).toBe(known);
  });
});

describe("lists", () => {
  it("keep their identity without a change, so that nothing is rendered again", () => {
    const page = { items: [job({}), job({ id: "b" })], next_cursor: null, total: 2 };
    expect(patchPage(page, event({ state: "RUNNING", version: 4 }, "zzz"))).toBe(page);
    const patched = patchPage(page, event({ state: "RUNNING", version: 4 }, "b"));
    expect(patched.items[1]?.state).toBe("RUNNING");
    expect(patched.items[0]).toBe(page.items[0]);
    expect(page.items[1]?.state).toBe("QUEUED");
  });

  it("never return to an older response", () => {
    const list = [job({ version: 5, state: "READY" })];
    expect(replaceJob(list, job({ version: 4 }))).toBe(list);
    expect(replaceJob(list, job({ version: 6, state: "FAILED" }))[0]?.state).toBe("FAILED");
  });

  it("contain a job of two pages once", () => {
    const page = (ids: string[]) => ({ items: ids.map((id) => job({ id })), next_cursor: null, total: 3 });
    expect(uniqueJobs([page(["a", "b"]), page(["b", "c"])]).map((entry) => entry.id)).toEqual(["a", "b", "c"]);
  });
});

it("recognizes a job's event", () => {
  expect(isJobEvent(event({}))).toBe(true);
  expect(isJobEvent({ kind: "nodes.changed", data: {} })).toBe(false);
  expect(isJobEvent(null)).toBe(false);
});
