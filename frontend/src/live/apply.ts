/** Applies the live feed to the cache: fields at once, stages and actions by one request per job. */
import type { InfiniteData, Query, QueryClient } from "@tanstack/react-query";
import { catalogKeys } from "@/api/catalog";
import { projectKeys } from "@/api/projects";
import { fetchJob, keys } from "@/api/queries";
import { rankKeys } from "@/api/ranks";
import { runKeys } from "@/api/runs";
import { topologyKeys } from "@/api/topology";
import type { Job, JobEvent, JobPage } from "@/api/types";
import type { JobFilters } from "@/lib/job-filters";
import { isJobEvent, patchJob, patchPage, removeJob, replaceJob } from "@/live/patch";

type Pages = InfiniteData<JobPage, string | null>;

const LISTS: ReadonlySet<unknown> = new Set([keys.sessions[0], keys.recent[0], keys.lists[0], keys.tasks("")[0], rankKeys.all[0]]);
const listsJobs = ({ queryKey }: Pick<Query, "queryKey">) => LISTS.has(queryKey[0]);
const listsByState = ({ queryKey }: Query) => (queryKey[1] as JobFilters | undefined)?.state !== undefined;

export class CacheUpdater {
  private detailTimers = new Map<string, number>();
  private throttled = new Map<string, number>();
  /** Each job's newest event while a list is being fetched: its response can be older. */
  private pendingEvents = new Map<string, JobEvent & { job_id: string }>();
  private unsubscribe: () => void = () => undefined;

  constructor(
    private readonly cache: QueryClient,
    private readonly user: string,
  ) {}

  start(): void {
    this.unsubscribe = this.cache.getQueryCache().subscribe((change) => {
      if (change.type !== "updated" || !listsJobs(change.query)) return;
      if (change.action.type === "success" && !change.action.manual) {
        for (const event of [...this.pendingEvents.values()]) this.patchLists(event);
      }
      if (this.cache.isFetching({ predicate: listsJobs }) === 0) this.pendingEvents.clear();
    });
  }

  apply(kind: string, event: unknown): void {
    if (kind === "nodes.changed") this.invalidateSoon("nodes", 1_000, keys.nodes);
    else if (kind === "announcement.changed") this.invalidateSoon("announcements", 300, ["announcements"]);
    else if (kind === "maintenance.changed") this.invalidateSoon("maintenance", 0, ["maintenance"]);
    else if (kind === "topology.changed") this.invalidateSoon("topology", 300, topologyKeys.cluster);
    else if (kind === "scheduler.changed") this.invalidateSoon("scheduler", 0, keys.nodes);
    else if (kind === "image.changed") this.invalidateSoon("images", 500, catalogKeys.images);
    else if (kind.startsWith("project.")) this.invalidateSoon("projects", 500, projectKeys.all);
    else if (kind === "dataset.changed") this.invalidateSoon("datasets", 500, catalogKeys.datasets);
    else if (kind === "job.profile" && isJobEvent(event)) this.invalidateSoon(`profile ${event.job_id}`, 500, keys.profile(event.job_id));
    else if (kind === "job.snapshot" && isJobEvent(event)) this.invalidateSoon(`snapshot ${event.job_id}`, 300, runKeys.snapshot(event.job_id));
    else if (kind === "job.placement" && isJobEvent(event)) this.invalidateSoon(`placement ${event.job_id}`, 300, topologyKeys.job(event.job_id));
    else if (kind === "sweep.changed" && isJobEvent(event)) this.invalidateSoon(`sweep ${event.job_id}`, 1_000, runKeys.sweep(event.job_id));
    else if (isJobEvent(event) && event.data.task_group === true) this.applyTasks(event);
    else if (isJobEvent(event)) this.applyJob(event);
  }

  /** Events may have been missed: refetches active queries, others when they are used. */
  reset(): void {
    void this.cache.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "plan" });
  }

  stop(): void {
    this.unsubscribe();
    this.pendingEvents.clear();
    for (const timer of [...this.detailTimers.values(), ...this.throttled.values()]) window.clearTimeout(timer);
    this.detailTimers.clear();
    this.throttled.clear();
  }

  private applyJob(event: JobEvent & { job_id: string }): void {
    const id = event.job_id;
    if (event.kind === "job.created") {
      if (event.data.array_job_id) return;
      if (typeof event.data.session_id === "string") this.invalidateSoon(`ranks ${event.data.session_id}`, 200, rankKeys.session(event.data.session_id));
      if (event.owner === this.user) {
        this.invalidateSoon("recent", 200, keys.recent);
        if (event.data.type === "session") this.invalidateSoon("sessions", 200, keys.sessions);
      }
      this.invalidateSoon("lists", 1_500, keys.lists);
      return;
    }
    if (event.kind === "job.folder") {
      if (this.isWatched(id)) this.refreshDetails(id);
      return;
    }
    if (event.kind === "job.deleted") {
      this.remove(id);
      return;
    }
    if (this.cache.isFetching({ predicate: listsJobs }) > 0) this.pendingEvents.set(id, event);
    this.patchLists(event);
    // Only the platform knows which jobs a list filtered by state contains.
    if (event.data.state !== undefined) this.invalidateSoon("lists by state", 2_000, keys.lists, listsByState);
    if (typeof event.data.array_job_id === "string") {
      this.invalidateSoon(`sweep ${event.data.array_job_id}`, 1_000, runKeys.sweep(event.data.array_job_id));
    }
    this.cache.setQueryData<Job>(keys.job(id), (old) => old && patchJob(old, event));
    if (this.isWatched(id)) this.refreshDetails(id);
    // The job's page may be opening, as after a launch: the cached stages are older than this event.
    else void this.cache.invalidateQueries({ queryKey: keys.job(id), exact: true, refetchType: "none" });
  }

  /** Takes a deleted job out of the lists; its own page keeps what it shows until it is left. */
  private remove(id: string): void {
    const page = (old: JobPage | undefined) => old && removeJob(old, id);
    this.cache.setQueryData<JobPage>(keys.sessions, page);
    this.cache.setQueryData<JobPage>(keys.recent, page);
    this.cache.setQueriesData<JobPage>({ queryKey: rankKeys.all }, page);
    this.cache.setQueriesData<Pages>({ queryKey: keys.lists }, (old) => old && patchPages(old, (entry) => removeJob(entry, id)));
    this.invalidateSoon("lists", 1_500, keys.lists);
    void this.cache.invalidateQueries({ queryKey: keys.job(id), exact: true });
  }

  /** An event of several array tasks: only the platform knows which of them a list contains. */
  private applyTasks(event: JobEvent): void {
    const array = event.data.array_job_id;
    if (typeof array !== "string") return;
    this.invalidateSoon(`tasks ${array}`, 500, keys.tasks(array));
    this.invalidateSoon(`sweep ${array}`, 1_000, runKeys.sweep(array));
    for (const query of this.cache.getQueryCache().findAll({ queryKey: keys.job("").slice(0, 1) })) {
      const job = query.state.data as Job | undefined;
      if (job?.array_job_id !== array || job.array_task_id === null) continue;
      this.invalidateSoon(`task ${job.id}`, 500, keys.job(job.id));
      this.invalidateSoon(`history ${job.id}`, 500, keys.events(job.id));
    }
  }

  private patchLists(event: JobEvent): void {
    const page = (old: JobPage | undefined) => old && patchPage(old, event);
    const pages = (old: Pages | undefined) => old && patchPages(old, (entry) => patchPage(entry, event));
    this.cache.setQueryData<JobPage>(keys.sessions, page);
    this.cache.setQueryData<JobPage>(keys.recent, page);
    this.cache.setQueriesData<JobPage>({ queryKey: rankKeys.all }, page);
    this.cache.setQueriesData<Pages>({ queryKey: keys.lists }, pages);
    if (typeof event.data.array_job_id === "string") this.cache.setQueryData<Pages>(keys.tasks(event.data.array_job_id), pages);
  }

  /** Whether the job is shown with stages and actions, which the platform computes. */
  private isWatched(id: string): boolean {
    const active = (queryKey: readonly unknown[]) =>
      this.cache.getQueryCache().find({ queryKey, exact: true })?.isActive() ?? false;
    if (active(keys.job(id))) return true;
    const lists = [keys.sessions, ...this.cache.getQueryCache().findAll({ queryKey: rankKeys.all }).map(({ queryKey }) => queryKey)];
    return lists.some((list) => active(list) && this.cache.getQueryData<JobPage>(list)?.items.some((job) => job.id === id) === true);
  }

  private refreshDetails(id: string): void {
    if (this.detailTimers.has(id)) return;
    const timer = window.setTimeout(() => {
      this.detailTimers.delete(id);
      fetchJob(id).then(
        (job) => this.put(job),
        () => undefined, // The patched fields remain; the next event or visit fetches again.
      );
      void this.cache.invalidateQueries({ queryKey: keys.events(id) });
      void this.cache.invalidateQueries({ queryKey: topologyKeys.job(id) });
    }, 120);
    this.detailTimers.set(id, timer);
  }

  /** Puts a job from an API response into every list that contains it. */
  put(job: Job): void {
    const page = (old: JobPage | undefined) => old && withItems(old, replaceJob(old.items, job));
    const pages = (old: Pages | undefined) =>
      old && patchPages(old, (entry) => withItems(entry, replaceJob(entry.items, job)));
    this.cache.setQueryData<Job>(keys.job(job.id), (old) => (old && old.version > job.version ? old : job));
    this.cache.setQueryData<JobPage>(keys.sessions, page);
    this.cache.setQueryData<JobPage>(keys.recent, page);
    this.cache.setQueriesData<JobPage>({ queryKey: rankKeys.all }, page);
    this.cache.setQueriesData<Pages>({ queryKey: keys.lists }, pages);
    if (job.array_job_id) this.cache.setQueryData<Pages>(keys.tasks(job.array_job_id), pages);
  }

  private invalidateSoon(name: string, ms: number, queryKey: readonly unknown[], predicate: (query: Query) => boolean = () => true): void {
    if (this.throttled.has(name)) return;
    const timer = window.setTimeout(() => {
      this.throttled.delete(name);
      void this.cache.invalidateQueries({ queryKey, predicate });
    }, ms);
    this.throttled.set(name, timer);
  }
}

function withItems(page: JobPage, items: Job[]): JobPage {
  return items === page.items ? page : { ...page, items };
}

function patchPages(data: Pages, patch: (page: JobPage) => JobPage): Pages {
  const pages = data.pages.map(patch);
  return pages.every((page, index) => page === data.pages[index]) ? data : { ...data, pages };
}
