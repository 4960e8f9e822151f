/** What pages with jobs do with their filters; the front page does not load it. */
import { FILTER_DEFAULTS, type JobFilters, type JobSearch, type JobSort } from "@/lib/job-filters";
import { STATE_GROUPS } from "@/lib/states";

/** The filters in the filter menu, besides name, state, type and owner. */
export const MORE = ["origin", "owner", "project", "template", "image", "node", "partition", "gpu", "gpus", "array", "from", "to", "at"] as const satisfies readonly (keyof JobFilters)[];

export function moreCount(filters: JobFilters): number {
  return MORE.filter((name) => filters[name] !== undefined).length;
}

/** Whether the user filters the jobs; the filters that the page itself sets do not count. */
export function isFiltered(filters: JobFilters, ofPage: JobFilters = {}): boolean {
  const chosen: JobFilters = { ...filters, ...Object.fromEntries(Object.keys(ofPage).map((name) => [name, undefined])) };
  const named = chosen.q !== undefined && chosen.q !== "";
  return named || chosen.state !== undefined || chosen.type !== undefined || moreCount(chosen) > 0;
}

function dayOf(moment: string, days = 0): string {
  const at = new Date(moment);
  const day = new Date(at.getFullYear(), at.getMonth(), at.getDate() + days);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

/** The minute of a time in Unix seconds, as in the filters. */
export function minuteOf(seconds: number): string {
  const at = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${dayOf(at.toISOString())}T${two(at.getHours())}:${two(at.getMinutes())}`;
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
    partition: search.partition ?? undefined,
    gpu: search.gpu_type ?? undefined,
    gpus: search.min_gpus ?? undefined,
    array: search.array ?? undefined,
    from: search.created_from ? dayOf(search.created_from) : undefined,
    to: search.created_before ? dayOf(search.created_before, -1) : undefined,
    at: search.active_at ? minuteOf(Date.parse(search.active_at) / 1000) : undefined,
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
