/** What the portal asks about the ranks that are attached to a session, and what it changes of them. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, done, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, Job, Plan } from "@/api/types";

export type RanksFile = components["schemas"]["RanksFile"];

/** Resource usage of a job by node and by rank. */
export type RankMetrics = Answered<components["schemas"]["RankMetrics"]>;

/** More rank groups than a session has. */
const MOST_GROUPS = 50;

export const rankKeys = {
  all: ["ranks"],
  session: (id: string) => ["ranks", id],
  metrics: (id: string) => ["rank-metrics", id],
} as const;

/** The rank groups of a session, newest first; the live feed keeps them current. */
export const ranksQuery = (session: string) =>
  queryOptions({
    queryKey: rankKeys.session(session),
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/sessions/{job_id}/ranks", { params: { path: { job_id: session }, query: { limit: MOST_GROUPS } }, signal })),
  });

/** When the ranks would start, and which limits apply; nothing is requested. */
export const ranksPlanQuery = (session: string, file: RanksFile) =>
  queryOptions({
    queryKey: ["plan", session, file],
    queryFn: async ({ signal }): Promise<Plan> =>
      must(client.POST("/api/v1/sessions/{job_id}/ranks:plan", { params: { path: { job_id: session } }, body: file, signal })),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    gcTime: 60_000,
    retry: false,
  });

/** The same key again after a failure on the way makes the same rank group, never a second one. */
export function startRanks(session: string, file: RanksFile, idempotencyKey: string): Promise<Job> {
  return must(
    client.POST("/api/v1/sessions/{job_id}/ranks", {
      params: { path: { job_id: session }, header: { "Idempotency-Key": idempotencyKey } },
      body: file,
    }),
  );
}

export function releaseRanks(session: string, group: string): Promise<void> {
  return done(client.POST("/api/v1/sessions/{job_id}/ranks/{group_id}/release", { params: { path: { job_id: session, group_id: group } } }));
}

export const rankMetricsQuery = (job: string) =>
  queryOptions({
    queryKey: rankKeys.metrics(job),
    queryFn: async ({ signal }): Promise<RankMetrics> => must(client.GET("/api/v1/jobs/{job_id}/metrics/ranks", { params: { path: { job_id: job } }, signal })),
  });
