/** One's own account and the ways into the platform: what the portal asks and changes. */
import { queryOptions } from "@tanstack/react-query";
import { client, done, must, setCsrfToken } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, Me, User } from "@/api/types";

type Schemas = components["schemas"];
export type Account = Answered<Schemas["AccountView"]>;
export type SignIn = Answered<Schemas["SignInView"]>;
export type Enrolment = Answered<Schemas["EnrolmentView"]>;
export type LoginSources = Answered<Schemas["LoginSources"]>;
export type Protection = Answered<Schemas["ProtectionView"]>;
/** What a password alone may lead to: a code is asked for. */
export type SecondStep = Answered<Schemas["SecondFactorNeeded"]>;

export const accountKeys = {
  sources: ["login-sources"],
  account: ["account"],
  signIns: ["sign-ins"],
  protection: (name: string) => ["protection", name],
} as const;

export const loginSourcesQuery = queryOptions({
  queryKey: accountKeys.sources,
  queryFn: ({ signal }) => must(client.GET("/api/v1/auth/sources", { signal })),
  staleTime: 5 * 60_000,
});

export const accountQuery = queryOptions({
  queryKey: accountKeys.account,
  queryFn: ({ signal }) => must(client.GET("/api/v1/account", { signal })),
});

export const signInsQuery = queryOptions({
  queryKey: accountKeys.signIns,
  queryFn: ({ signal }) => must(client.GET("/api/v1/account/sign-ins", { signal })),
});

export const protectionQuery = (name: string) =>
  queryOptions({
    queryKey: accountKeys.protection(name),
    queryFn: ({ signal }) => must(client.GET("/api/v1/users/{name}/protection", { params: { path: { name } }, signal })),
  });

/** Confirms the user's identity, which is required before tokens, webhooks or mail addresses are created. */
export function reauthenticateWith(proof: { password: string } | { code: string } | { link: string }): Promise<void> {
  return done(client.POST("/api/v1/account/reauthenticate", { body: proof }));
}

function storeCsrfToken<Who extends Me>(me: Who): Who {
  setCsrfToken(me.csrf_token ?? null);
  return me;
}

export async function login(username: string, password: string): Promise<Me | SecondStep> {
  const result = await must(client.POST("/api/v1/auth/login", { body: { username, password } }));
  return "ticket" in result ? result : storeCsrfToken(result);
}

export async function finishLogin(ticket: string, code: string): Promise<Me & { recovery_codes: string[] }> {
  return storeCsrfToken(await must(client.POST("/api/v1/auth/totp", { body: { ticket, code } })));
}

export async function loginByLink(token: string): Promise<Me> {
  return storeCsrfToken(await must(client.POST("/api/v1/auth/login-link", { body: { token } })));
}

export function resetPassword(token: string, password: string, deleteTokens: boolean): Promise<{ name: string }> {
  return must(client.POST("/api/v1/auth/reset", { body: { token, password, delete_tokens: deleteTokens } }));
}

export function changeProfile(name: string, body: Schemas["UserChanges"]): Promise<User> {
  return must(client.PATCH("/api/v1/users/{name}", { params: { path: { name } }, body }));
}

export function changePassword(password: string, current: string | null, deleteTokens: boolean): Promise<void> {
  const body = { password, current_password: current, delete_tokens: deleteTokens };
  return done(client.POST("/api/v1/account/password", { body }));
}

export function enrolSecondFactor(): Promise<Enrolment> {
  return must(client.POST("/api/v1/account/second-factor"));
}

export async function confirmSecondFactor(code: string): Promise<string[]> {
  return (await must(client.POST("/api/v1/account/second-factor/confirm", { body: { code } }))).recovery_codes;
}

export async function renewRecoveryCodes(code: string): Promise<string[]> {
  return (await must(client.POST("/api/v1/account/second-factor/recovery-codes", { body: { code } }))).recovery_codes;
}

export function disableSecondFactor(code: string): Promise<void> {
  return done(client.POST("/api/v1/account/second-factor/disable", { body: { code } }));
}

export function revokeSignIn(id: string): Promise<void> {
  return done(client.DELETE("/api/v1/account/sign-ins/{sign_in_id}", { params: { path: { sign_in_id: id } } }));
}

export async function revokeOtherSignIns(): Promise<number> {
  return (await must(client.DELETE("/api/v1/account/sign-ins"))).revoked;
}

export function createResetLink(name: string): Promise<{ url: string; expires_at: string }> {
  return must(client.POST("/api/v1/users/{name}/reset-link", { params: { path: { name } } }));
}

export function unlockUser(name: string): Promise<void> {
  return done(client.POST("/api/v1/users/{name}/unlock", { params: { path: { name } } }));
}

export function resetSecondFactor(name: string): Promise<void> {
  return done(client.POST("/api/v1/users/{name}/reset-second-factor", { params: { path: { name } } }));
}

/** From then on the whole portal is another one, so the caller loads it anew. */
export async function impersonate(name: string): Promise<void> {
  await must(client.POST("/api/v1/users/{name}/impersonate", { params: { path: { name } } }));
}

export function endImpersonation(): Promise<void> {
  return done(client.POST("/api/v1/auth/end-impersonation"));
}
