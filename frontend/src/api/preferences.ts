/** What the user prefers, one document for each key, and how it is changed. */
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { client, isStatus, must, type Seen, tagged } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, JobFile } from "@/api/types";

type Schemas = components["schemas"];
export type JobViews = Answered<Schemas["JobViews"]>;
export type SavedView = JobViews["views"][number];
export type LastLaunch = Schemas["LastLaunch-Output"];
/** Values of a launch form under a name. */
export interface Preset {
  name: string;
  file: JobFile;
}
export interface TemplatePreferences {
  pinned: string[];
  presets: Preset[];
}

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

export const templatePreferencesQuery = queryOptions({
  queryKey: ["preferences", "templates"],
  queryFn: async ({ signal }) => (await must(client.GET("/api/v1/me/preferences/templates", { signal }))) as TemplatePreferences,
  staleTime: 5 * 60_000,
});

export type ViewsChange = (old: JobViews) => JobViews;
export type TemplatesChange = (old: TemplatePreferences) => TemplatePreferences;

/** Made to what the platform has now, so that it undoes nothing that was saved elsewhere meanwhile. */
async function changed<T>(read: () => Promise<Seen<T>>, write: (value: T, tag: string) => Promise<T>, change: (old: T) => T, again = true): Promise<T> {
  const { value, tag } = await read();
  try {
    return await write(change(value), tag);
  } catch (error) {
    if (again && isStatus(error, 412)) return changed(read, write, change, false);
    throw error;
  }
}

const changeJobViews = (change: ViewsChange) =>
  changed(
    () => tagged(client.GET("/api/v1/me/preferences/job_views")),
    (body, tag) => must(client.PUT("/api/v1/me/preferences/job_views", { body, params: { header: { "If-Match": tag } } })),
    change,
  );

const changeTemplates = (change: TemplatesChange) =>
  changed<TemplatePreferences>(
    async () => (await tagged(client.GET("/api/v1/me/preferences/templates"))) as Seen<TemplatePreferences>,
    async (body, tag) => (await must(client.PUT("/api/v1/me/preferences/templates", { body, params: { header: { "If-Match": tag } } }))) as TemplatePreferences,
    change,
  );

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

/** Shown at once, as the views are. */
export function useSaveTemplates(onError: (error: unknown) => void) {
  const cache = useQueryClient();
  return useMutation({
    scope: { id: "templates" },
    mutationFn: (change: TemplatesChange) => changeTemplates(change),
    onMutate: (change) => cache.setQueryData(templatePreferencesQuery.queryKey, (old) => old && change(old)),
    onSuccess: (answer) => cache.setQueryData(templatePreferencesQuery.queryKey, answer),
    onError: (error) => {
      void cache.invalidateQueries({ queryKey: templatePreferencesQuery.queryKey });
      onError(error);
    },
  });
}

const MOST_LAUNCHES = 20;

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
