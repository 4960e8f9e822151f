import type { Job } from "@/api/types";
import { shortId } from "@/lib/id";

const PLAIN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$/;

/** The name under which ssh knows a job: its own where that can be a host's name, else its id's beginning. */
export function hostOf(job: Pick<Job, "id" | "name" | "array_job_id" | "array_task_id">): string {
  const name = PLAIN.test(job.name) && job.array_task_id === null ? job.name : shortId(job);
  return `${name}.aitne`;
}
