/** Notifications in words. Pure. */
import i18next from "i18next";
import type { Kind, Told } from "@/api/notifications";
import { msg } from "@/i18n/msg";
import { said } from "@/i18n/server";
import { formatAbsolute } from "@/lib/time";

const OF_STATE: Partial<Record<string, string>> = {
  FAILED: msg("{{name}} failed"),
  OUT_OF_MEMORY: msg("{{name}} ran out of memory"),
  TIMED_OUT: msg("{{name}} reached its time limit"),
  NODE_FAILED: msg("{{name}} lost its node"),
  PREEMPTED: msg("{{name}} was preempted"),
  LOST: msg("{{name}} was lost"),
  CANCELLED: msg("{{name}} was cancelled"),
};

const OF_KIND: Partial<Record<Kind, string>> = {
  session_ready: msg("{{name}} is ready"),
  session_expiring: msg("{{name}} ends soon"),
  session_idle: msg("{{name}} is idle and ends soon"),
  session_ended: msg("{{name}} has ended"),
  job_started: msg("{{name}} has started"),
  job_finished: msg("{{name}} has finished"),
  job_failed: msg("{{name}} failed"),
  gpu_idle: msg("{{name}} leaves its GPUs idle"),
  project_invited: msg("You are a member of the project {{project}}"),
  project_requested: msg("Somebody asks for something for the project {{project}}"),
  project_expiring: msg("The project {{project}} ends soon"),
  webhook_disabled: msg("A webhook is no longer told: {{url}}"),
};

const OF_SECURITY: Partial<Record<string, string>> = {
  sign_in: msg("New sign-in: {{device}}"),
  token: msg("New token: {{name}}"),
  password: msg("Your password was changed"),
  second_factor: msg("Your second factor was removed"),
};

/** What each kind is called where one chooses. */
export const KINDS: readonly { kind: Kind; label: string }[] = [
  { kind: "session_ready", label: msg("A session is ready") },
  { kind: "session_expiring", label: msg("A session ends soon") },
  { kind: "session_idle", label: msg("A session is idle") },
  { kind: "session_ended", label: msg("A session has ended by itself") },
  { kind: "job_started", label: msg("A job has started") },
  { kind: "job_finished", label: msg("A job has finished") },
  { kind: "job_failed", label: msg("A job has failed") },
  { kind: "gpu_idle", label: msg("A job leaves its GPUs idle") },
  { kind: "project_invited", label: msg("You were added to a project") },
  { kind: "project_requested", label: msg("Somebody asks for a project") },
  { kind: "project_expiring", label: msg("A project ends soon") },
  { kind: "announcement", label: msg("An announcement") },
  { kind: "maintenance", label: msg("Maintenance") },
];

type Words = Pick<Told, "kind" | "title" | "text" | "data">;

/** The title in the reader's language. */
export function titleOf(told: Words): string {
  const { name, project, url, state, reason, starts_at: starts, change, device } = told.data as Record<string, unknown>;
  if (told.kind === "maintenance" && typeof starts === "string") {
    return i18next.t("Maintenance from {{time}}", { time: formatAbsolute(new Date(starts)) });
  }
  const ended = (told.kind === "session_ended" || told.kind === "job_failed") && reason !== "idle";
  const security = told.kind === "account_security" && typeof change === "string" ? OF_SECURITY[change] : undefined;
  const template = security ?? (ended && typeof state === "string" ? OF_STATE[state] : undefined) ?? OF_KIND[told.kind];
  const values = { name: text(name), project: text(project), url: text(url), device: text(device) };
  return template === undefined ? told.title : i18next.t(template, { ...values, interpolation: { escapeValue: false } });
}

/** What more there is to say. */
export function bodyOf(told: Words): string {
  if (told.kind === "gpu_idle") return i18next.t("Look whether its program uses them at all, or cancel it so that others can.");
  if (told.kind === "session_idle") return i18next.t("Keep it, or go on working in it and it stays.");
  if (told.kind === "session_expiring") return i18next.t("Save your work, or give it more time.");
  if (told.kind === "session_ready") return "";
  if (told.kind === "account_security") return securityText(told.data);
  return said(told.text).text;
}

function securityText({ address, by }: Record<string, unknown>): string {
  const advice = i18next.t("If this was not you, change your password, log out everywhere and revoke your tokens.");
  if (typeof by === "string") return `${i18next.t("Created by {{name}}.", { name: by })} ${advice}`;
  if (typeof address === "string") return `${i18next.t("From {{address}}.", { address, interpolation: { escapeValue: false } })} ${advice}`;
  return advice;
}

/** The last lines of a failed job's log. */
export function logOf(told: Words): string[] {
  const { log } = told.data as Record<string, unknown>;
  return Array.isArray(log) ? log.map(text) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
