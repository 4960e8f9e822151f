/** Texts of notifications. Pure. */
import i18next from "i18next";
import type { Kind, InboxNotification } from "@/api/notifications";
import { msg } from "@/i18n/msg";
import { translateServerText } from "@/i18n/server";
import { describeDevice } from "@/lib/device";
import { formatAbsolute } from "@/lib/time";

const STATE_TITLES: Partial<Record<string, string>> = {
  FAILED: msg("{{name}} failed"),
  OUT_OF_MEMORY: msg("{{name}} ran out of memory"),
  TIMED_OUT: msg("{{name}} reached its time limit"),
  NODE_FAILED: msg("{{name}} lost its node"),
  PREEMPTED: msg("{{name}} was preempted"),
  LOST: msg("{{name}} was lost"),
  CANCELLED: msg("{{name}} was cancelled"),
};

const KIND_TITLES: Partial<Record<Kind, string>> = {
  session_ready: msg("{{name}} is ready"),
  session_expiring: msg("{{name}} ends soon"),
  session_idle: msg("{{name}} is idle and ends soon"),
  session_ended: msg("{{name}} has ended"),
  job_started: msg("{{name}} has started"),
  job_finished: msg("{{name}} has finished"),
  job_failed: msg("{{name}} failed"),
  gpu_idle: msg("{{name}} has idle GPUs"),
  job_message: msg("Message from {{name}}"),
  project_invited: msg("You were added to project {{project}}"),
  project_requested: msg("Request for project {{project}}"),
  project_expiring: msg("Project {{project}} ends soon"),
  webhook_disabled: msg("Webhook disabled: {{url}}"),
};

const SECURITY_TITLES: Partial<Record<string, string>> = {
  sign_in: msg("New login: {{device}}"),
  token: msg("New token: {{name}}"),
  password: msg("Your password was changed"),
  second_factor: msg("Your second factor was removed"),
};

/** Labels of the kinds in the notification settings. */
export const KINDS: readonly { kind: Kind; label: string }[] = [
  { kind: "session_ready", label: msg("Session ready") },
  { kind: "session_expiring", label: msg("Session ends soon") },
  { kind: "session_idle", label: msg("Session idle") },
  { kind: "session_ended", label: msg("Session ended automatically") },
  { kind: "job_started", label: msg("Job started") },
  { kind: "job_finished", label: msg("Job finished") },
  { kind: "job_failed", label: msg("Job failed") },
  { kind: "gpu_idle", label: msg("Job with idle GPUs") },
  { kind: "job_message", label: msg("Message from a job") },
  { kind: "project_invited", label: msg("Added to a project") },
  { kind: "project_requested", label: msg("Project requested") },
  { kind: "project_expiring", label: msg("Project ends soon") },
  { kind: "announcement", label: msg("Announcement") },
  { kind: "maintenance", label: msg("Maintenance") },
  { kind: "alert", label: msg("Monitoring alert (administrators)") },
];

type NotificationContent = Pick<InboxNotification, "kind" | "title" | "text" | "data">;

/** The title in the selected language. */
export function titleOf(notification: NotificationContent): string {
  const { name, project, url, state, reason, starts_at: starts, change, device } = notification.data as Record<string, unknown>;
  if (notification.kind === "maintenance" && typeof starts === "string") {
    return i18next.t("Maintenance from {{time}}", { time: formatAbsolute(new Date(starts)) });
  }
  if (notification.kind === "alert" && notification.data.status === "resolved") {
    return i18next.t("Resolved: {{summary}}", { summary: text(notification.data.summary), interpolation: { escapeValue: false } });
  }
  const ended = (notification.kind === "session_ended" || notification.kind === "job_failed") && reason !== "idle";
  const security = notification.kind === "account_security" && typeof change === "string" ? SECURITY_TITLES[change] : undefined;
  const template = security ?? (ended && typeof state === "string" ? STATE_TITLES[state] : undefined) ?? KIND_TITLES[notification.kind];
  const values = { name: text(name), project: text(project), url: text(url), device: describeDevice(text(device)) };
  return template === undefined ? notification.title : i18next.t(template, { ...values, interpolation: { escapeValue: false } });
}

/** The text below the title; empty without one. */
export function bodyOf(notification: NotificationContent): string {
  if (notification.kind === "gpu_idle") return i18next.t("Check whether the program uses the GPUs, or cancel the job to free them.");
  if (notification.kind === "session_idle") return i18next.t("Keep the session or continue working in it.");
  if (notification.kind === "session_expiring") return i18next.t("Save your work or extend the session.");
  if (notification.kind === "session_ready") return "";
  if (notification.kind === "job_message") return notification.text;
  if (notification.kind === "account_security") return securityText(notification.data);
  return translateServerText(notification.text).text;
}

function securityText({ address, by }: Record<string, unknown>): string {
  const advice = i18next.t("If this was not you, change your password, log out everywhere and revoke your tokens.");
  if (typeof by === "string") return `${i18next.t("Created by {{name}}.", { name: by })} ${advice}`;
  if (typeof address === "string") return `${i18next.t("From {{address}}.", { address, interpolation: { escapeValue: false } })} ${advice}`;
  return advice;
}

/** The last lines of a failed job's log. */
export function logOf(notification: NotificationContent): string[] {
  const { log } = notification.data as Record<string, unknown>;
  return Array.isArray(log) ? log.map(text) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
