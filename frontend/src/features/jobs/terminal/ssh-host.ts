import type { Job } from "@/api/types";
import { shortId } from "@/lib/id";

const PLAIN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$/;

/** The SSH host name of a job: its name where that is a valid host name, else its short ID. */
export function hostOf(job: Pick<Job, "id" | "name" | "array_job_id" | "array_task_id">): string {
  const name = PLAIN.test(job.name) && job.array_task_id === null ? job.name : shortId(job);
  return `${name}.aitne`;
}
