/** What the user prefers, one document for each key, and how it is changed. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { client, isStatus, must, tagged } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, JobFile } from "@/api/types";

type Schemas = components["schemas"];
export type JobViews = Answered<Schemas["JobViews"]>;
export type SavedView = JobViews["views"][number];
export type LastLaunch = Schemas["LastLaunch-Output"];

export const jobViewsQuery = queryOptions({
  queryKey: ["preferences", "job_views"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/me/preferences/job_views", { signal })),
  staleTime: 5 * 60_000,
});

export const lastLaunchQuery = queryOptions({
  queryKey: ["preferences", "last_launch"],
  queryFn: async ({ signal }): Promise<LastLaunch> => must(client.GET("/api/v1/me/preferences/last_launch", { signal })),
  staleTime: 5 * 60_000,
});

export type ViewsChange = (old: JobViews) => JobViews;

/** Made to what the platform has now, so that it undoes nothing that was saved elsewhere meanwhile. */
async function changeJobViews(change: ViewsChange, again = true): Promise<JobViews> {
  const { value, tag } = await tagged(client.GET("/api/v1/me/preferences/job_views"));
  try {
    return await must(client.PUT("/api/v1/me/preferences/job_views", { body: change(value), params: { header: { "If-Match": tag } } }));
  } catch (error) {
    if (again && isStatus(error, 412)) return changeJobViews(change, false);
    throw error;
  }
}

/** Shown at once; if the platform refuses it, what it has comes back. */
export function useSaveJobViews(onError: (error: unknown) => void) {
  const cache = useQueryClient();
  return useMutation({
    scope: { id: "job_views" },
    mutationFn: (change: ViewsChange) => changeJobViews(change),
    onMutate: (change) => cache.setQueryData(jobViewsQuery.queryKey, (old) => old && change(old)),
    onSuccess: (answer) => cache.setQueryData(jobViewsQuery.queryKey, answer),
    onError: (error) => {
      void cache.invalidateQueries({ queryKey: jobViewsQuery.queryKey });
      onError(error);
    },
  });
}

const MOST_LAUNCHES = 5;

/** Notes what was launched, so that the dashboard can offer it again. A failure is nobody's concern here. */
export function useRememberLaunch() {
  const cache = useQueryClient();
  const save = useMutation({
    mutationFn: async ({ title, file }: { title: string; file: JobFile }) => {
      const { items } = await cache.query(lastLaunchQuery);
      const others = items.filter((item) => (item.file.template ?? item.title) !== (file.template ?? title));
      const body = { items: [{ title, file, launched_at: new Date().toISOString() }, ...others].slice(0, MOST_LAUNCHES) };
      return must(client.PUT("/api/v1/me/preferences/last_launch", { body: body as Schemas["LastLaunch-Input"] }));
    },
    onSuccess: (answer) => cache.setQueryData(lastLaunchQuery.queryKey, answer),
  });
  return (title: string, file: JobFile) => save.mutate({ title, file });
}
