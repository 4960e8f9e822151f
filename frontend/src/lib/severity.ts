/** How announcements and the state of the platform's parts are shown. */
import type { Announcement, Health, Severity } from "@/api/admin";
import { msg } from "@/i18n/msg";
import type { Tone } from "@/lib/states";

/** The labels are keys: `t(look.label)`. */
export const SEVERITIES: Record<Severity, { label: string; tone: Tone }> = {
  info: { label: msg("Information"), tone: "active" },
  warning: { label: msg("Warning"), tone: "warn" },
  critical: { label: msg("Critical"), tone: "bad" },
};

export const HEALTH_LOOKS: Record<Health["state"], { label: string; tone: Tone }> = {
  ok: { label: msg("Works"), tone: "good" },
  unknown: { label: msg("Unknown"), tone: "neutral" },
  degraded: { label: msg("Needs a look"), tone: "warn" },
  down: { label: msg("Down"), tone: "bad" },
};

const PART_NAMES: Partial<Record<string, string>> = {
  api: msg("API"),
  database: msg("Database"),
  controller: msg("Controller"),
  scheduler: msg("Scheduler"),
  nodes: msg("Nodes"),
  queue: msg("Orders to the scheduler"),
  events: msg("Live updates"),
  hub: msg("JupyterHub"),
  proxy: msg("Session proxy"),
  broker: msg("Broker"),
  storage: msg("Storage"),
  disk: msg("Disk of the platform"),
  templates: msg("Job templates"),
  isolation: msg("Isolation of sessions"),
  certificates: msg("Certificates"),
};

/** A key, or the name that a newer platform gives. */
export function partName(name: string): string {
  return PART_NAMES[name] ?? name;
}

export type Stage = "past" | "current" | "future";

/** Whether an announcement is shown now. */
export function stageOf({ starts_at, ends_at }: Pick<Announcement, "starts_at" | "ends_at">, now: Date): Stage {
  if (new Date(starts_at) > now) return "future";
  return ends_at !== null && new Date(ends_at) <= now ? "past" : "current";
}

/** What a field for date and time holds, of the viewer's zone; an ISO time and back. */
export function toField(iso: string | null): string {
  if (iso === null) return "";
  const time = new Date(iso);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromField(text: string): string | null {
  const time = new Date(text);
  return text === "" || Number.isNaN(time.getTime()) ? null : time.toISOString();
}
