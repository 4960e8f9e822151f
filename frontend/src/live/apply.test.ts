import { QueryClient } from "@tanstack/react-query";
import { expect, it } from "vitest";
import { keys } from "@/api/queries";
import type { Job } from "@/api/types";
import { CacheUpdater } from "./apply";

it("asks anew for a job whose page opens after an event: its stages are not in the event", () => {
  const cache = new QueryClient();
  cache.setQueryData(keys.job("a"), { id: "a", state: "PENDING", version: 1 });
  const data = { state: "RUNNING", version: 2 };
  new CacheUpdater(cache, "mira").apply("job.state", { id: 9, kind: "job.state", job_id: "a", owner: "mira", data });
  expect(cache.getQueryData<Job>(keys.job("a"))?.state).toBe("RUNNING");
  expect(cache.getQueryState(keys.job("a"))?.isInvalidated).toBe(true);
});
