/** What the portal asks the API, with the cache keys that the live feed patches. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, getRaw, must, setCsrfToken } from "@/api/client";
import type { Job, JobFile } from "@/api/types";
import { type StateGroup, statesOfGroup } from "@/lib/states";

/** Filters of the jobs table, as its URL has them. */
export interface JobFilters {
  state?: StateGroup | undefined;
  type?: "job" | "session" | undefined;
  q?: string | undefined;
  /** Set: everyone's jobs that I may see; else only mine. */
  all?: boolean | undefined;
}

export const keys = {
  me: ["me"],
  templates: ["templates"],
  nodes: ["nodes"],
  partitions: ["partitions"],
  sessions: ["sessions"],
  recent: ["recent"],
  lists: ["jobs"],
  list: (filters: JobFilters, owner: string) => ["jobs", filters, owner],
  tasks: (id: string) => ["tasks", id],
  job: (id: string) => ["job", id],
  queue: (id: string) => ["queue", id],
  events: (id: string) => ["job-events", id],
  script: (id: string, attempt: number) => ["job-script", id, attempt],
  record: (id: string, version: number) => ["job-record", id, version],
  metrics: (id: string) => ["job-metrics", id],
  tokens: ["tokens"],
  users: ["users"],
} as const;

export const meQuery = queryOptions({
  queryKey: keys.me,
  queryFn: async ({ signal }) => {
    const me = await must(client.GET("/api/v1/me", { signal }));
    setCsrfToken(me.csrf_token ?? null);
    return me;
  },
  staleTime: 5 * 60_000,
});

export const templatesQuery = queryOptions({
  queryKey: keys.templates,
  queryFn: async ({ signal }) =>
    must(client.GET("/api/v1/templates", { signal })),
  staleTime: 60_000,
});

export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/nodes", { signal })),
});

export const partitionsQuery = queryOptions({
  queryKey: keys.partitions,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/partitions", { signal })),
  staleTime: 60_000,
});

/** Others move it without any event of the job itself. */
export const queueQuery = (id: string) =>
  queryOptions({
    queryKey: keys.queue(id),
    queryFn: async ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/queue", { params: { path: { job_id: id } }, signal })),
    refetchInterval: 15_000,
  });

export const sessionsQuery = (owner: string) =>
  queryOptions({
    queryKey: keys.sessions,
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/sessions", { params: { query: { owner, limit: 50 } }, signal })),
  });

export const recentQuery = (owner: string) =>
  queryOptions({
    queryKey: keys.recent,
    queryFn: async ({ signal }) =>
      must(
        client.GET("/api/v1/jobs", { params: { query: { owner, top_level: true, limit: 6 } }, signal }),
      ),
  });

export const PAGE = 50;

export const jobsQuery = (filters: JobFilters, owner: string) =>
  infiniteQueryOptions({
    queryKey: keys.list(filters, owner),
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/jobs", {
          params: {
            query: {
              ...(filters.all ? {} : { owner }),
              ...(filters.state ? { state: [...statesOfGroup(filters.state)] } : {}),
              ...(filters.type ? { type: filters.type } : {}),
              ...(filters.q ? { q: filters.q } : {}),
              ...(pageParam === null ? {} : { cursor: pageParam }),
              top_level: true,
              limit: PAGE,
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
    placeholderData: keepPreviousData,
  });

export const tasksQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: keys.tasks(id),
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/jobs", {
          params: {
            query: { array_job_id: id, limit: 100, ...(pageParam === null ? {} : { cursor: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
  });

export async function fetchJob(id: string, signal?: AbortSignal): Promise<Job> {
  return must(
    client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, ...(signal ? { signal } : {}) }),
  );
}

export const jobQuery = (id: string) =>
  queryOptions({ queryKey: keys.job(id), queryFn: ({ signal }) => fetchJob(id, signal) });

export const jobEventsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.events(id),
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id } }, signal })),
  });

export const metricsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.metrics(id),
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/jobs/{job_id}/metrics", { params: { path: { job_id: id } }, signal })),
  });

/** The script of an attempt never changes. */
export const scriptQuery = (id: string, attempt: number) =>
  queryOptions({
    queryKey: keys.script(id, attempt),
    queryFn: async ({ signal }) => (await getRaw(`/jobs/${id}/script`, signal)).text(),
    staleTime: Infinity,
  });

export const recordQuery = (id: string, version: number) =>
  queryOptions({
    queryKey: keys.record(id, version),
    queryFn: async ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/record", { params: { path: { job_id: id } }, signal })),
    staleTime: Infinity,
  });

export const planQuery = (file: JobFile) =>
  queryOptions({
    queryKey: ["plan", file],
    queryFn: async ({ signal }) => must(client.POST("/api/v1/jobs:plan", { body: file, signal })),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    gcTime: 60_000,
    retry: false,
  });

export const tokensQuery = queryOptions({
  queryKey: keys.tokens,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/tokens", { signal })),
});

export const usersQuery = queryOptions({
  queryKey: keys.users,
  queryFn: async ({ signal }) =>
    must(client.GET("/api/v1/users", { params: { query: { limit: 500 } }, signal })),
});
