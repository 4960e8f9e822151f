/** Applies events to fetched data. Pure functions; nothing is mutated. */
import type { Job, JobEvent, JobPage } from "@/api/types";

/** Fields of an event's data that are fields of the job itself. */
const FIELDS = [
  "state",
  "reason",
  "message",
  "attempt",
  "nodes",
  "url",
  "exit_code",
  "submitted_at",
  "allocated_at",
  "started_at",
  "ready_at",
  "ended_at",
  "expires_at",
  "expected_start_at",
  "idle_ends_at",
  "gpu_idle_since",
  "cancel_requested",
  "version",
] as const;

export function isJobEvent(event: unknown): event is JobEvent & { job_id: string } {
  if (typeof event !== "object" || event === null) return false;
  const { kind, job_id: id, data } = event as Record<string, unknown>;
  return (
    typeof kind === "string" &&
    /^(job|sweep)\./.test(kind) &&
    typeof id === "string" &&
    typeof data === "object" &&
    data !== null
  );
}

/** The job with the event's fields; the same object if the event is older than the job. */
export function patchJob<T extends Job>(job: T, event: JobEvent): T {
  if (job.id !== event.job_id) return job;
  const version = event.data.version;
  if (typeof version === "number" && version <= job.version) return job;
  const changes: Record<string, unknown> = {};
  for (const field of FIELDS) {
    if (field in event.data) changes[field] = event.data[field];
  }
  return { ...job, ...changes };
}

export function patchList<T extends Job>(jobs: T[], event: JobEvent): T[] {
  const index = jobs.findIndex((job) => job.id === event.job_id);
  const old = jobs[index];
  if (old === undefined) return jobs;
  const patched = patchJob(old, event);
  return patched === old ? jobs : jobs.with(index, patched);
}

export function patchPage(page: JobPage, event: JobEvent): JobPage {
  const items = patchList(page.items, event);
  return items === page.items ? page : { ...page, items };
}

/** The page without this job; the same object if the job is not on it. */
export function removeJob(page: JobPage, id: string): JobPage {
  const items = page.items.filter((job) => job.id !== id);
  return items.length === page.items.length ? page : { ...page, items, total: page.total - 1 };
}

/** A fetched job in place of the one in a list, unless the list already has a newer one. */
export function replaceJob<T extends Job>(jobs: T[], job: T): T[] {
  const index = jobs.findIndex((entry) => entry.id === job.id);
  const old = jobs[index];
  return old === undefined || old.version > job.version ? jobs : jobs.with(index, job);
}

/** Two pages that overlap because a job was created between fetching them: each job once. */
export function uniqueJobs(pages: readonly JobPage[]): Job[] {
  return [...new Map(pages.flatMap((page) => page.items.map((job) => [job.id, job]))).values()];
}
