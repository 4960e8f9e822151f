/** What the portal asks the API, with the cache keys that the live feed patches. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, getRaw, isStatus, must, setCsrfToken } from "@/api/client";
import type { Job, JobFile, JobProfile, Template } from "@/api/types";
import { translateServerText } from "@/i18n/server";
import { type JobFilters, toSearch } from "@/lib/job-filters";

export type { JobFilters };

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
  failure: (id: string, version: number) => ["job-failure", id, version],
  events: (id: string) => ["job-events", id],
  script: (id: string, attempt: number) => ["job-script", id, attempt],
  record: (id: string, version: number) => ["job-record", id, version],
  metrics: (id: string) => ["job-metrics", id],
  profile: (id: string) => ["job-profile", id],
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
  select: (found) => ({ ...found, items: found.items.map(inOwnWords) }),
  staleTime: 60_000,
});

/** A template as the reader's language has it: those that come with the platform are known there. */
function inOwnWords(template: Template): Template {
  const words = <Text extends { title: string; description: string }>(text: Text): Text => ({ ...text, title: translateServerText(text.title).text, description: translateServerText(text.description).text });
  return { ...words(template), parameters: template.parameters.map(words) };
}

export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/nodes", { signal })),
});

export const partitionsQuery = queryOptions({
  queryKey: keys.partitions,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/partitions", { signal })),
  staleTime: 60_000,
});

/** Null for a job that has not failed; a changed job may have another explanation. */
export const failureQuery = (id: string, version: number) =>
  queryOptions({
    queryKey: keys.failure(id, version),
    queryFn: async ({ signal }) => (await must(client.GET("/api/v1/jobs/{job_id}/failure", { params: { path: { job_id: id } }, signal }))).failure,
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

const WHOLE_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** For the command palette: somebody's jobs and sessions of a name, or the one of an id. */
export const findJobsQuery = (text: string, owner: string) =>
  queryOptions({
    queryKey: ["find", text, owner],
    queryFn: async ({ signal }): Promise<Job[]> => {
      if (WHOLE_ID.test(text)) {
        try {
          return [await fetchJob(text, signal)];
        } catch (error) {
          if (isStatus(error, 404)) return [];
          throw error;
        }
      }
      const page = await must(
        client.GET("/api/v1/jobs", { params: { query: { owner, q: text, top_level: true, limit: 7 } }, signal }),
      );
      return page.items;
    },
    placeholderData: keepPreviousData,
    staleTime: 10_000,
    gcTime: 60_000,
  });

export const PAGE = 200;

export const jobsQuery = (filters: JobFilters, owner: string) =>
  infiniteQueryOptions({
    queryKey: keys.list(filters, owner),
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/jobs", {
          params: {
            query: {
              ...toSearch(filters, owner),
              sort: filters.sort ?? "created",
              order: filters.order ?? "desc",
              ...(pageParam === null ? {} : { cursor: pageParam }),
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

/** Tasks of an array job, oldest first, in pages of 100. */
export const tasksQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: keys.tasks(id),
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/jobs", {
          params: {
            query: { array_job_id: id, order: "asc", limit: 100, ...(pageParam === null ? {} : { cursor: pageParam }) },
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

/** Null until the ranks have reported; the live feed announces updates. */
export const profileQuery = (id: string) =>
  queryOptions({
    queryKey: keys.profile(id),
    queryFn: async ({ signal }): Promise<JobProfile | null> => {
      try {
        const answer = await must(client.GET("/api/v1/jobs/{job_id}/profile", { params: { path: { job_id: id } }, signal }));
        return typeof answer === "string" ? null : answer; // Text is what Prometheus asks for.
      } catch (error) {
        if (isStatus(error, 404)) return null;
        throw error;
      }
    },
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

/** The job file that would make the same job again. */
export const jobFileQuery = (id: string) =>
  queryOptions({
    queryKey: ["job-file", id],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/file", { params: { path: { job_id: id } }, signal })),
    staleTime: Infinity,
  });

/** Counted from the running jobs' time limits; the platform itself renews it every few seconds. */
export const capacityQuery = queryOptions({
  queryKey: ["capacity"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/capacity", { signal })),
  refetchInterval: 30_000,
});
