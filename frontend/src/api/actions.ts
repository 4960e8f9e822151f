/** What the portal asks the API to change. */
import { client, done, must, setCsrfToken } from "@/api/client";
import type { ClusterNode, Job, JobFile, Me, NewToken, NewUser, TokenSecret, User, UserChanges } from "@/api/types";

async function entered(call: Promise<Me>): Promise<Me> {
  const me = await call;
  setCsrfToken(me.csrf_token ?? null);
  return me;
}

export function login(username: string, password: string): Promise<Me> {
  return entered(must(client.POST("/api/v1/auth/login", { body: { username, password } })));
}

export function loginByLink(token: string): Promise<Me> {
  return entered(must(client.POST("/api/v1/auth/login-link", { body: { token } })));
}

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

export function resubmit(id: string, idempotencyKey: string): Promise<Job> {
  return must(
    client.POST("/api/v1/jobs/{job_id}/resubmit", {
      params: { path: { job_id: id }, header: { "Idempotency-Key": idempotencyKey } },
    }),
  );
}

export function cancelJob(id: string): Promise<Job> {
  return must(client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } }));
}

export function stopSession(id: string): Promise<Job> {
  return must(client.POST("/api/v1/sessions/{job_id}/stop", { params: { path: { job_id: id } } }));
}

export function extendSession(id: string, duration: string): Promise<Job> {
  return must(
    client.POST("/api/v1/sessions/{job_id}/extend", { params: { path: { job_id: id } }, body: { duration } }),
  );
}

export async function openSession(id: string): Promise<string> {
  const answer = await must(client.POST("/api/v1/sessions/{job_id}/open", { params: { path: { job_id: id } } }));
  return answer.url;
}

export function drainNode(name: string, reason: string): Promise<ClusterNode> {
  return must(client.POST("/api/v1/cluster/nodes/{name}/drain", { params: { path: { name } }, body: { reason } }));
}

export function resumeNode(name: string): Promise<ClusterNode> {
  return must(client.POST("/api/v1/cluster/nodes/{name}/resume", { params: { path: { name } } }));
}

export function createToken(body: NewToken): Promise<TokenSecret> {
  return must(client.POST("/api/v1/tokens", { body }));
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
