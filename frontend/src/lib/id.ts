/** A random UUID. `crypto.randomUUID` exists only on HTTPS and localhost; this works on plain HTTP too. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** The first characters of a job's ID; for an array task those of the array with the index: `0008e66b_4`. */
export function shortId(job: { id: string; array_job_id: string | null; array_task_id: number | null }): string {
  if (job.array_job_id === null) return job.id.slice(0, 8);
  return `${job.array_job_id.slice(0, 8)}_${job.array_task_id}`;
}
