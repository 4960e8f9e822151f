/** What the portal asks about what runs were and what came of them, and what it changes of that. */
import { queryOptions } from "@tanstack/react-query";
import { client, isStatus, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, Job } from "@/api/types";

type Schemas = components["schemas"];

export type Snapshot = Answered<Schemas["Snapshot"]>;
export type WrittenFiles = Answered<Schemas["WrittenFiles"]>;
export type Results = Answered<Schemas["Results"]>;
export type Sweep = Answered<Schemas["Sweep"]>;
export type SweepTask = Sweep["tasks"][number];
export type Comparison = Answered<Schemas["Comparison"]>;
export type Rerun = Answered<Schemas["Rerun"]>;

export const runKeys = {
  snapshot: (id: string) => ["job-snapshot", id],
  files: (id: string, ended: boolean) => ["job-files", id, ended],
  results: (id: string) => ["job-results", id],
  sweep: (id: string) => ["job-sweep", id],
  rerun: (id: string) => ["job-rerun", id],
  compare: (a: string, b: string) => ["job-compare", a, b],
} as const;

async function orNull<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (isStatus(error, 404)) return null;
    throw error;
  }
}

export const snapshotQuery = (id: string) =>
  queryOptions({
    queryKey: runKeys.snapshot(id),
    queryFn: ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/snapshot", { params: { path: { job_id: id } }, signal })),
  });

/** Null until the job's agent has looked, which it does at the end. */
export const filesQuery = (id: string, ended: boolean) =>
  queryOptions({
    queryKey: runKeys.files(id, ended),
    queryFn: ({ signal }) => orNull(must(client.GET("/api/v1/jobs/{job_id}/files", { params: { path: { job_id: id } }, signal }))),
  });

export const sweepQuery = (id: string) =>
  queryOptions({
    queryKey: runKeys.sweep(id),
    queryFn: ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/sweep", { params: { path: { job_id: id } }, signal })),
  });

/** Null while the program has measured nothing. */
export const resultsQuery = (id: string) =>
  queryOptions({
    queryKey: runKeys.results(id),
    queryFn: ({ signal }) => orNull(must(client.GET("/api/v1/jobs/{job_id}/results", { params: { path: { job_id: id } }, signal }))),
  });

export const rerunQuery = (id: string) =>
  queryOptions({
    queryKey: runKeys.rerun(id),
    queryFn: ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/resubmit", { params: { path: { job_id: id } }, signal })),
    staleTime: 0,
    gcTime: 0,
    retry: false,
  });

export const compareQuery = (a: string, b: string) =>
  queryOptions({
    queryKey: runKeys.compare(a, b),
    queryFn: ({ signal }) =>
      must(client.GET("/api/v1/jobs/{job_id}/compare/{other_id}", { params: { path: { job_id: a, other_id: b } }, signal })),
  });

export function stopSweep(id: string): Promise<Job> {
  return must(client.POST("/api/v1/jobs/{job_id}/sweep/stop", { params: { path: { job_id: id } } }));
}

export function continueSession(id: string, idempotencyKey: string): Promise<Job> {
  return must(
    client.POST("/api/v1/sessions/{job_id}/continue", {
      params: { path: { job_id: id }, header: { "Idempotency-Key": idempotencyKey } },
    }),
  );
}
