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
  gpu?: string | undefined;
  gpus?: number | undefined;
  array?: boolean | undefined;
  /** Days in the browser's time zone, "2026-01-31", the last one included. */
  from?: string | undefined;
  to?: string | undefined;
  sort?: JobSort | undefined;
  order?: "asc" | "desc" | undefined;
}

export const FILTER_DEFAULTS: JobFilters = { q: "", all: false, sort: "created", order: "desc" };

const TEXTS = ["owner", "project", "template", "image", "node", "gpu"] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

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

/** The filters in the filter menu, besides name, state, type and owner. */
export const MORE = ["origin", "owner", "project", "template", "image", "node", "gpu", "gpus", "array", "from", "to"] as const satisfies readonly (keyof JobFilters)[];

export function moreCount(filters: JobFilters): number {
  return MORE.filter((name) => filters[name] !== undefined).length;
}

export function isFiltered(filters: JobFilters): boolean {
  const named = filters.q !== undefined && filters.q !== "";
  return named || filters.state !== undefined || filters.type !== undefined || moreCount(filters) > 0;
}

/** Midnight in the browser's time zone, `days` after the day. */
function midnight(day: string, days = 0): string {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + days).toISOString();
}

function dayOf(moment: string, days = 0): string {
  const at = new Date(moment);
  const day = new Date(at.getFullYear(), at.getMonth(), at.getDate() + days);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
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
    ...(filters.gpu ? { gpu_type: filters.gpu } : {}),
    ...(filters.gpus === undefined ? {} : { min_gpus: filters.gpus }),
    ...(filters.array === undefined ? {} : { array: filters.array }),
    ...(filters.from ? { created_from: midnight(filters.from) } : {}),
    ...(filters.to ? { created_before: midnight(filters.to, 1) } : {}),
    top_level: true,
  };
  return search as JobSearch;
}

/** The filters of a saved view. */
export function fromSearch(search: Partial<JobSearch>, sort: JobSort, descending: boolean, me: string): JobFilters {
  const states = new Set(search.state ?? []);
  const group = STATE_GROUPS.find((entry) => entry.states.length === states.size && entry.states.every((state) => states.has(state)));
  return {
    ...FILTER_DEFAULTS,
    state: group?.value,
    type: search.type ?? undefined,
    origin: search.origin ?? undefined,
    q: search.q ?? "",
    all: search.owner !== me,
    owner: search.owner === me ? undefined : (search.owner ?? undefined),
    project: search.project ?? undefined,
    template: search.template ?? undefined,
    image: search.image ?? undefined,
    node: search.node ?? undefined,
    gpu: search.gpu_type ?? undefined,
    gpus: search.min_gpus ?? undefined,
    array: search.array ?? undefined,
    from: search.created_from ? dayOf(search.created_from) : undefined,
    to: search.created_before ? dayOf(search.created_before, -1) : undefined,
    sort,
    order: descending ? "desc" : "asc",
  };
}

/** The dates of a period: the last days including today, or a year. */
export function period(name: "today" | "week" | "month" | "year" | "last-year", now: Date): { from: string; to: string | undefined } {
  const iso = now.toISOString();
  if (name === "year") return { from: `${now.getFullYear()}-01-01`, to: undefined };
  if (name === "last-year") return { from: `${now.getFullYear() - 1}-01-01`, to: `${now.getFullYear() - 1}-12-31` };
  return { from: dayOf(iso, { today: 0, week: -6, month: -29 }[name]), to: undefined };
}
