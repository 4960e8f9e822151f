/** The typed client. Every failure comes out as an ApiProblem; the rest of the portal never sees a status. */
import createClient, { type Middleware } from "openapi-fetch";
import { ApiProblem, problemFrom, unreachable } from "@/api/problem";
import type { paths } from "@/api/schema";
import type { Answered } from "@/api/types";

export const API = "/api/v1";

const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);

let csrfToken: string | null = null;
let clockOffsetMs = 0;

/** Kept from /me: proves to the API that a request that changes something comes from this page. */
export function setCsrfToken(token: string | null): void {
  csrfToken = token;
}

/** The platform's time, which the stages and countdowns count in; the browser's clock may be wrong. */
export function platformNow(): Date {
  return new Date(Date.now() + clockOffsetMs);
}

function noteClock(response: Response): void {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  // The header has whole seconds; only a difference that matters is corrected.
  const offset = date + 500 - Date.now();
  clockOffsetMs = Math.abs(offset) > 3_000 ? offset : 0;
}

/** Asks the user to prove who is at the browser; whether that was done. */
type Reauthenticate = () => Promise<boolean>;

let reauthenticate: Reauthenticate | null = null;
/** Changes that are on their way, to be sent once more after the user has proved who is at the browser. */
const changes = new Map<string, Request>();

/** The dialog that is shown where the API asks for a recent authentication. */
export function setReauthenticate(ask: Reauthenticate | null): void {
  reauthenticate = ask;
}

async function isReauthenticationRequired(response: Response): Promise<boolean> {
  if (response.status !== 403) return false;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  return typeof body === "object" && body !== null && "code" in body && body.code === "reauthentication_required";
}

const middleware: Middleware = {
  onRequest({ request, id }) {
    if (SAFE.has(request.method)) return request;
    if (csrfToken !== null) request.headers.set("X-CSRF-Token", csrfToken);
    changes.set(id, request.clone());
    return request;
  },
  async onResponse({ response, id }) {
    noteClock(response);
    const again = changes.get(id);
    changes.delete(id);
    if (again === undefined || reauthenticate === null || !(await isReauthenticationRequired(response))) return undefined;
    return (await reauthenticate()) ? fetch(again) : undefined;
  },
  onError({ error, id }) {
    changes.delete(id);
    return error instanceof DOMException && error.name === "AbortError" ? error : unreachable();
  },
};

export const client = createClient<paths>({ baseUrl: "", credentials: "same-origin" });
client.use(middleware);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What a call answers, or its ApiProblem thrown. */
export async function must<T>(call: Promise<Answer<T>>): Promise<Answered<NonNullable<T>>> {
  const { data, error, response } = await call;
  if (!response.ok) throw problemFrom(response.status, error, response.headers);
  return data as Answered<NonNullable<T>>;
}

/** What was seen, and the tag that says so: a change sends it along. */
export interface Seen<T> {
  value: T;
  tag: string;
}

/** `must`, with the tag of what was answered. */
export async function tagged<T>(call: Promise<Answer<T>>): Promise<Seen<Answered<NonNullable<T>>>> {
  const value = await must(call);
  return { value, tag: (await call).response.headers.get("etag") ?? "*" };
}

/** For calls that answer 204 or whose answer does not matter. */
export async function done(call: Promise<Answer<unknown>>): Promise<void> {
  const { error, response } = await call;
  if (!response.ok) throw problemFrom(response.status, error, response.headers);
}

/** A GET of the API whose body is not JSON (scripts, logs). The caller reads the body. */
export async function getRaw(path: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(API + path, { credentials: "same-origin", cache: "no-store", signal: signal ?? null });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
  noteClock(response);
  if (!response.ok) {
    const body: unknown = await response.json().catch(() => null);
    throw problemFrom(response.status, body, response.headers);
  }
  return response;
}

export function isStatus(error: unknown, status: number): boolean {
  return error instanceof ApiProblem && error.status === status;
}
