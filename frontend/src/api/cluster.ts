/** What the pages of the cluster ask the API. */
import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, must } from "@/api/client";
import type { LoadPeriod } from "@/api/types";

/** There is a sample per minute; the page refreshes more rarely. */
export const loadHistoryQuery = (period: LoadPeriod, partition?: string) =>
  queryOptions({
    queryKey: ["load-history", period, partition],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/history", { params: { query: { period, ...(partition === undefined ? {} : { partition }) } }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 5 * 60_000,
  });

/** The platform itself counts them for all viewers together. */
export const queuesQuery = (period: LoadPeriod) =>
  queryOptions({
    queryKey: ["queues", period],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/cluster/queues", { params: { query: { period } }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: 60_000,
  });
