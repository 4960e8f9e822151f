/** Filters and order of the jobs table: in the URL, in saved views, and as a request of the API. */
import type { components } from "@/api/schema";
import { STATE_GROUPS, type StateGroup, statesOfGroup } from "@/lib/states";

type Schemas = components["schemas"];
export type JobSort = Schemas["JobSort"];
export type JobSearch = Schemas["JobSearch"];

export const SORTS: readonly JobSort[] = ["created", "started", "ended", "duration", "name", "owner", "project", "state", "gpus"];

/** As in the page's URL. */
export interface JobFilters {
  state?: StateGroup | undefined;
  type?: "job" | "session" | undefined;
  origin?: "platform" | "outside" | undefined;
  q?: string | undefined;
  /** Set: all visible jobs; else only the user's own. */
  all?: boolean | undefined;
  owner?: string | undefined;
  project?: string | undefined;
  template?: string | undefined;
  image?: string | undefined;
  node?: string | undefined;
  partition?: string | undefined;
  gpu?: string | undefined;
  gpus?: number | undefined;
  array?: boolean | undefined;
  /** Days in the browser's time zone, "2026-01-31", the last one included. */
  from?: string | undefined;
  to?: string | undefined;
  /** A minute in the browser's time zone, "2026-01-31T09:30", at which the jobs had an allocation. */
  at?: string | undefined;
  sort?: JobSort | undefined;
  order?: "asc" | "desc" | undefined;
}

export const FILTER_DEFAULTS: JobFilters = { q: "", all: false, sort: "created", order: "desc" };

const TEXTS = ["owner", "project", "template", "image", "node", "partition", "gpu"] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const MINUTE = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/;

/** From the URL's search parameters; invalid values are ignored. */
export function readFilters(search: Record<string, unknown>): JobFilters {
  const filters: JobFilters = {
    state: STATE_GROUPS.find((group) => group.value === search.state)?.value,
    type: search.type === "job" || search.type === "session" ? search.type : undefined,
    origin: search.origin === "platform" || search.origin === "outside" ? search.origin : undefined,
    q: textOf(search.q) ?? "",
    all: search.all === true || search.all === "true",
    sort: SORTS.find((sort) => sort === search.sort) ?? "created",
    order: search.order === "asc" ? "asc" : "desc",
  };
  for (const name of TEXTS) filters[name] = textOf(search[name]);
  for (const name of ["from", "to"] as const) {
    const day = textOf(search[name]);
    filters[name] = day !== undefined && DAY.test(day) ? day : undefined;
  }
  const at = textOf(search.at);
  filters.at = at !== undefined && MINUTE.test(at) && !Number.isNaN(Date.parse(at)) ? at : undefined;
  const gpus = Number(search.gpus);
  filters.gpus = search.gpus !== undefined && Number.isInteger(gpus) && gpus >= 0 ? gpus : undefined;
  filters.array = typeof search.array === "boolean" ? search.array : undefined;
  return filters;
}

function textOf(value: unknown): string | undefined {
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const text = String(value).slice(0, 200);
  return text === "" ? undefined : text;
}

/** Midnight in the browser's time zone, `days` after the day. */
function midnight(day: string, days = 0): string {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + days).toISOString();
}

/** The search of the API; `me` is the owner unless all jobs or another owner are selected. */
export function toSearch(filters: JobFilters, me: string): JobSearch {
  const owner = filters.owner ?? (filters.all ? undefined : me);
  const search: Partial<JobSearch> = {
    ...(owner === undefined ? {} : { owner }),
    ...(filters.state ? { state: [...statesOfGroup(filters.state)] } : {}),
    ...(filters.type ? { type: filters.type } : {}),
    ...(filters.origin ? { origin: filters.origin } : {}),
    ...(filters.q ? { q: filters.q } : {}),
    ...(filters.project ? { project: filters.project } : {}),
    ...(filters.template ? { template: filters.template } : {}),
    ...(filters.image ? { image: filters.image } : {}),
    ...(filters.node ? { node: filters.node } : {}),
    ...(filters.partition ? { partition: filters.partition } : {}),
    ...(filters.gpu ? { gpu_type: filters.gpu } : {}),
    ...(filters.gpus === undefined ? {} : { min_gpus: filters.gpus }),
    ...(filters.array === undefined ? {} : { array: filters.array }),
    ...(filters.from ? { created_from: midnight(filters.from) } : {}),
    ...(filters.to ? { created_before: midnight(filters.to, 1) } : {}),
    ...(filters.at ? { active_at: new Date(filters.at).toISOString() } : {}),
    top_level: true,
  };
  return search as JobSearch;
}
