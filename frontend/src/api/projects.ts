/** What the portal asks about projects. */
import { queryOptions } from "@tanstack/react-query";
import { client, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

type Schemas = components["schemas"];

export type Project = Answered<Schemas["Project"]>;
export type LimitUse = Answered<Schemas["Use"]>;
export type ProjectLimits = Answered<Schemas["ProjectLimits"]>;
export type UsageRow = Answered<Schemas["UsageRow"]>;
export type UsageReport = Answered<Schemas["UsageReport"]>;

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/projects", { signal })),
  staleTime: 60_000,
});

/** What is in use moves without any event that says so. */
export const limitsQuery = (name: string) =>
  queryOptions({
    queryKey: ["projects", name, "limits"],
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/projects/{name}/limits", { params: { path: { name } }, signal })),
    refetchInterval: 15_000,
  });

export const usageQuery = (name: string, month: string) =>
  queryOptions({
    queryKey: ["projects", name, "usage", month],
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/projects/{name}/usage", { params: { path: { name }, query: { month } }, signal })),
    staleTime: 30_000,
    // Whether the cluster keeps accounts does not change by asking again.
    retry: false,
  });
