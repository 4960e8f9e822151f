/** What the portal asks the API to change. */
import { client, done, must, setCsrfToken } from "@/api/client";
import type { CancelResults, ClusterNode, DeleteResults, DeviceLoginAnswer, DeviceLoginView, ImportedJobFile, Job, JobFile, NewToken, NewUser, ResubmitOptions, TokenSecret, User, UserChanges } from "@/api/types";
import type { JobSearch } from "@/lib/job-filters";

export async function logout(): Promise<void> {
  await done(client.POST("/api/v1/auth/logout"));
  setCsrfToken(null);
}

/** The same key again after a failure on the way makes the same job, never a second one. */
export function launch(file: JobFile, idempotencyKey: string): Promise<Job> {
  return must(
    client.POST("/api/v1/jobs", { body: file, params: { header: { "Idempotency-Key": idempotencyKey } } }),
  );
}

export function resubmit(id: string, idempotencyKey: string, options?: ResubmitOptions): Promise<Job> {
  return must(
    client.POST("/api/v1/jobs/{job_id}/resubmit", {
      params: { path: { job_id: id }, header: { "Idempotency-Key": idempotencyKey } },
      ...(options === undefined ? {} : { body: options }),
    }),
  );
}

export function cancelJob(id: string): Promise<Job> {
  return must(client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } }));
}

export function holdJob(id: string): Promise<Job> {
  return must(client.POST("/api/v1/jobs/{job_id}/hold", { params: { path: { job_id: id } } }));
}

export function releaseJob(id: string): Promise<Job> {
  return must(client.POST("/api/v1/jobs/{job_id}/release", { params: { path: { job_id: id } } }));
}

/** How many tasks of an array run at once; null: no limit. */
export function throttleArray(id: string, maxParallel: number | null): Promise<Job> {
  return must(client.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, body: { max_parallel: maxParallel } }));
}

export function stopSession(id: string): Promise<Job> {
  return must(client.POST("/api/v1/sessions/{job_id}/stop", { params: { path: { job_id: id } } }));
}

export function extendJob(id: string, duration: string): Promise<Job> {
  return must(
    client.POST("/api/v1/jobs/{job_id}/extend", { params: { path: { job_id: id } }, body: { duration } }),
  );
}

export async function openSession(id: string, app?: string): Promise<string> {
  const query = app === undefined ? {} : { app };
  const answer = await must(client.POST("/api/v1/sessions/{job_id}/open", { params: { path: { job_id: id }, query } }));
  return answer.url;
}

export function drainNode(name: string, reason: string): Promise<ClusterNode> {
  return must(client.POST("/api/v1/cluster/nodes/{name}/drain", { params: { path: { name } }, body: { reason } }));
}

export function resumeNode(name: string): Promise<ClusterNode> {
  return must(client.POST("/api/v1/cluster/nodes/{name}/resume", { params: { path: { name } } }));
}

/** Reports that the user is at work in a page, so that the login does not end as unused. */
export function reportActivity(): Promise<void> {
  return done(client.POST("/api/v1/auth/activity"));
}

export function createToken(body: NewToken): Promise<TokenSecret> {
  return must(client.POST("/api/v1/tokens", { body }));
}

/** Which program shows a code, from where and since when. */
export function lookUpDeviceLogin(userCode: string): Promise<DeviceLoginView> {
  return must(client.POST("/api/v1/auth/device/lookup", { body: { user_code: userCode } }));
}

/** Lets a program that shows a code have a token of the user, or refuses that. */
export function confirmDeviceLogin(body: DeviceLoginAnswer): Promise<void> {
  return done(client.POST("/api/v1/auth/device/confirm", { body }));
}

export function revokeToken(id: string): Promise<void> {
  return done(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } }));
}

export function createUser(body: NewUser): Promise<User> {
  return must(client.POST("/api/v1/users", { body }));
}

export function changeUser(name: string, body: UserChanges): Promise<User> {
  return must(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body }));
}

/** Each is judged by itself: the answer says what became of it. */
export function cancelJobs(ids: string[]): Promise<CancelResults> {
  return must(client.POST("/api/v1/jobs:cancel", { body: { ids } }));
}

/** All that match and still live; refused (409) if they are not as many as `expected`. */
export function cancelMatching(filter: JobSearch, expected: number): Promise<CancelResults> {
  return must(client.POST("/api/v1/jobs:cancel", { body: { filter, expected } }));
}

/** The job can be seen until its folder is removed. */
export function deleteJob(id: string): Promise<Job> {
  return must(client.DELETE("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } }));
}

/** Each is judged by itself: the answer says what became of it. */
export function deleteJobs(ids: string[]): Promise<DeleteResults> {
  return must(client.POST("/api/v1/jobs:delete", { body: { ids } }));
}

/** All that match and have ended; refused (409) if they are not as many as `expected`. */
export function deleteMatching(filter: JobSearch, expected: number): Promise<DeleteResults> {
  return must(client.POST("/api/v1/jobs:delete", { body: { filter, expected } }));
}

/** How many of the jobs that match have ended, each array counted once. */
export async function countEnded(search: JobSearch): Promise<number> {
  const counts = await must(client.GET("/api/v1/jobs:count", { params: { query: { ...search, top_level: true } } }));
  return counts.total - counts.live;
}

/** How many of the jobs that match have not ended. */
export async function countLive(search: JobSearch): Promise<number> {
  return (await must(client.GET("/api/v1/jobs:count", { params: { query: search } }))).live;
}

export function importScript(script: string): Promise<ImportedJobFile> {
  return must(client.POST("/api/v1/jobs:import", { body: { script } }));
}
