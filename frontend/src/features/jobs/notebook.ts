import { API } from "@/api/client";
import type { Job } from "@/api/types";

/** Whether more cells may follow. */
export function notebookState(job: Pick<Job, "ended_at">): "running" | "ended" {
  return job.ended_at === null ? "running" : "ended";
}

/** The file name of a job's notebook. */
export function notebookName(job: Pick<Job, "notebook">): string {
  return job.notebook?.path.split("/").pop() ?? "notebook.ipynb";
}

/** The address of the executed notebook's page. The page has no scripts: the fragment selects its colours. */
export function pageAddress(jobId: string, scheme: "light" | "dark"): string {
  return `${API}/jobs/${jobId}/notebook.html#${scheme}`;
}

/** The parameters of a notebook in the form of a job file. */
export function notebookParameters(job: Pick<Job, "notebook">): [string, string][] {
  return Object.entries(job.notebook?.parameters ?? {}).map(([name, value]) => [name, typeof value === "string" ? value : written(value)]);
}

/** A value as in YAML, in which the numbers that JSON does not have are `.inf`, `-.inf` and `.nan`. Quotes in texts are escaped. */
function written(value: unknown): string {
  return JSON.stringify(value).replace(/\{"\$float":"(-?)(inf|nan)"\}/g, "$1.$2");
}
