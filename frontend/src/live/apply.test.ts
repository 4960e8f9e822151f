import { QueryClient } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { keys } from "@/api/queries";
import { rankKeys } from "@/api/ranks";
import { runKeys } from "@/api/runs";
import { topologyKeys } from "@/api/topology";
import type { Job, JobPage } from "@/api/types";
import { CacheUpdater } from "./apply";

// Timers are all that is asked of it.
vi.stubGlobal("window", globalThis);

it("refetches a job whose page opens after an event: its stages are not in the event", () => {
  const cache = new QueryClient();
  cache.setQueryData(keys.job("a"), { id: "a", state: "PENDING", version: 1 });
  const data = { state: "RUNNING", version: 2 };
  new CacheUpdater(cache, "mira").apply("job.state", { id: 9, kind: "job.state", job_id: "a", owner: "mira", data });
  expect(cache.getQueryData<Job>(keys.job("a"))?.state).toBe("RUNNING");
  expect(cache.getQueryState(keys.job("a"))?.isInvalidated).toBe(true);
});

it("refetches only lists filtered by state, in which a job can be missing", () => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  const [running, any] = [keys.list({ state: "running" }, "mira"), keys.list({}, "mira")];
  for (const key of [running, any]) cache.setQueryData(key, { pages: [{ items: [] }], pageParams: [null] });
  updater.apply("job.state", { id: 9, kind: "job.state", job_id: "a", owner: "mira", data: { state: "RUNNING", version: 2 } });
  vi.advanceTimersByTime(2_000);
  expect(cache.getQueryState(running)?.isInvalidated).toBe(true);
  expect(cache.getQueryState(any)?.isInvalidated).toBe(false);
  updater.stop();
  vi.useRealTimers();
});

it("applies an event that arrives while a list is fetched to the older response", async () => {
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  updater.start();
  const running = { items: ["a", "b"].map((id) => ({ id, state: "RUNNING", version: 1 })) };
  cache.setQueryData(keys.recent, running);
  let answer: (page: typeof running) => void = () => undefined;
  const fetching = cache.query({ queryKey: keys.recent, queryFn: () => new Promise<typeof running>((resolve) => (answer = resolve)) });
  const data = { state: "CANCELLED", version: 2 };
  for (const id of ["a", "b"]) updater.apply("job.state", { id: 9, kind: "job.state", job_id: id, owner: "mira", data });
  answer({ items: running.items.map((job) => ({ ...job })) });
  await fetching;
  expect(cache.getQueryData<JobPage>(keys.recent)?.items.map((job) => job.state)).toEqual(["CANCELLED", "CANCELLED"]);
  updater.stop();
});

it.each([
  ["job.tasks", "group", { array_job_id: "a", task_group: true, split_task_ids: "1", version: 2 }, keys.tasks("a")],
  ["job.state", "group", { array_job_id: "a", task_group: true, state: "CANCELLED", version: 2 }, keys.tasks("a")],
  ["sweep.changed", "a", {}, runKeys.sweep("a")],
])("asks anew for the tasks of an array after %s, which names none of them", (kind, id, data, key) => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  cache.setQueryData(key, { pages: [{ items: [] }], pageParams: [null] });
  updater.apply(kind, { id: 9, kind, job_id: id, owner: "mira", data });
  vi.advanceTimersByTime(1_000);
  expect(cache.getQueryState(key)?.isInvalidated).toBe(true);
  updater.stop();
  vi.useRealTimers();
});

it("takes a deleted job out of the lists", () => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  const page = { items: ["a", "b"].map((id) => ({ id, state: "COMPLETED", version: 3 })), next_cursor: null, total: 2 };
  cache.setQueryData(keys.recent, page);
  cache.setQueryData(keys.list({}, "mira"), { pages: [page], pageParams: [null] });
  updater.apply("job.deleted", { id: 9, kind: "job.deleted", job_id: "a", owner: "mira", data: { state: "COMPLETED", version: 4 } });
  expect(cache.getQueryData<JobPage>(keys.recent)?.items.map((job) => job.id)).toEqual(["b"]);
  expect(cache.getQueryData<{ pages: JobPage[] }>(keys.list({}, "mira"))?.pages[0]?.total).toBe(1);
  updater.stop();
  vi.useRealTimers();
});

it("keeps the ranks of a session current: a new group is fetched, a change of one is applied at once", () => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  const key = rankKeys.session("lab");
  cache.setQueryData(key, { items: [{ id: "a", state: "QUEUED", version: 1 }] });
  const event = { id: 9, job_id: "a", owner: "mira" };
  updater.apply("job.state", { ...event, kind: "job.state", data: { state: "RUNNING", version: 2 } });
  expect(cache.getQueryData<JobPage>(key)?.items[0]?.state).toBe("RUNNING");
  expect(cache.getQueryState(key)?.isInvalidated).toBe(false);
  updater.apply("job.created", { ...event, job_id: "b", kind: "job.created", data: { type: "job", session_id: "lab", version: 1 } });
  vi.advanceTimersByTime(200);
  expect(cache.getQueryState(key)?.isInvalidated).toBe(true);
  updater.stop();
  vi.useRealTimers();
});

it("refetches the placement of a job when its agents have reported it", () => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  for (const id of ["a", "b"]) cache.setQueryData(topologyKeys.job(id), {});
  updater.apply("job.placement", { id: 9, job_id: "a", owner: "mira", kind: "job.placement", data: {} });
  vi.advanceTimersByTime(300);
  expect(cache.getQueryState(topologyKeys.job("a"))?.isInvalidated).toBe(true);
  expect(cache.getQueryState(topologyKeys.job("b"))?.isInvalidated).toBe(false);
  updater.stop();
  vi.useRealTimers();
});

it.each(["topology.changed", "nodes.changed"])("refetches the topology after %s", (kind) => {
  vi.useFakeTimers();
  const cache = new QueryClient();
  const updater = new CacheUpdater(cache, "mira");
  cache.setQueryData(topologyKeys.cluster, {});
  updater.apply(kind, { id: 9, kind, data: {} });
  vi.advanceTimersByTime(1_000);
  expect(cache.getQueryState(topologyKeys.cluster)?.isInvalidated).toBe(true);
  updater.stop();
  vi.useRealTimers();
});
