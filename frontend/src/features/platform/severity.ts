/** Labels and tones of announcements and of the platform's components. */
import type { Announcement, Health, Severity } from "@/api/admin";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";

/** The labels are keys: `t(look.label)`. */
export const SEVERITIES: Record<Severity, { label: string; tone: Tone }> = {
  info: { label: msg("Information"), tone: "active" },
  warning: { label: msg("Warning"), tone: "warn" },
  critical: { label: msg("Critical"), tone: "bad" },
};

export function severityLook(severity: string): { label: string; tone: Tone } {
  return known(SEVERITIES, severity, { label: severity, tone: "neutral" });
}

const HEALTH_LOOKS: Record<Health["state"], { label: string; tone: Tone }> = {
  ok: { label: msg("OK"), tone: "good" },
  unknown: { label: msg("Unknown"), tone: "neutral" },
  degraded: { label: msg("Degraded"), tone: "warn" },
  down: { label: msg("Down"), tone: "bad" },
};

export function healthLook(state: string): { label: string; tone: Tone } {
  return known(HEALTH_LOOKS, state, { label: state, tone: "neutral" });
}

const COMPONENT_NAMES: Partial<Record<string, string>> = {
  api: msg("API"),
  database: msg("Database"),
  controller: msg("Controller"),
  scheduler: msg("Scheduler"),
  nodes: msg("Nodes"),
  queue: msg("Pending scheduler requests"),
  events: msg("Live updates"),
  hub: msg("JupyterHub"),
  proxy: msg("Session proxy"),
  broker: msg("Broker"),
  storage: msg("Storage"),
  disk: msg("Platform disk"),
  templates: msg("Job templates"),
  isolation: msg("Session isolation"),
  topology: msg("Network topology"),
  certificates: msg("Certificates"),
  secrets: msg("Files of secrets"),
  backup: msg("Backup"),
  doctor: msg("Host and nodes"),
};

/** The label of a component as a key; unknown names are returned unchanged. */
export function partName(name: string): string {
  return COMPONENT_NAMES[name] ?? name;
}

export type Stage = "past" | "current" | "future";

/** Whether an announcement is shown now. */
export function stageOf({ starts_at, ends_at }: Pick<Announcement, "starts_at" | "ends_at">, now: Date): Stage {
  if (new Date(starts_at) > now) return "future";
  return ends_at !== null && new Date(ends_at) <= now ? "past" : "current";
}

/** Conversion between an ISO time and the value of a date and time input in the browser's time zone. */
export function toField(iso: string | null): string {
  if (iso === null) return "";
  const time = new Date(iso);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromField(text: string): string | null {
  const time = new Date(text);
  return text === "" || Number.isNaN(time.getTime()) ? null : time.toISOString();
}
