/** Period and partition of the administrators' charts, in the page's URL. */
import type { LoadPeriod } from "@/api/types";

export interface LoadSearch {
  period?: LoadPeriod;
  partition?: string;
}

export function readLoadSearch(search: Record<string, unknown>): LoadSearch {
  const { period, partition } = search;
  return {
    ...(period === "week" || period === "month" ? { period } : {}),
    ...(typeof partition === "string" && partition !== "" ? { partition: partition.slice(0, 100) } : {}),
  };
}
