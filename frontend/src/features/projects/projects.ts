/** Labels of project states and roles, and the user's rights in a project. */
import i18next from "i18next";
import type { Invitation, Project, ProjectRole, ProjectState, UsageRow } from "@/api/projects";
import type { Me } from "@/api/types";
import { locale } from "@/i18n/locale";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";
import { DAY } from "@/lib/time";

const STATES: Record<ProjectState, { label: string; tone: Tone }> = {
  requested: { label: msg("Requested"), tone: "waiting" },
  active: { label: msg("Active"), tone: "good" },
  expired: { label: msg("Expired"), tone: "bad" },
  closed: { label: msg("Closed"), tone: "neutral" },
};
const ROLES: Record<ProjectRole, string> = { member: msg("Member"), manager: msg("Manager") };
const SOON_DAYS = 30;

export const PROJECT_STATES = Object.keys(STATES) as ProjectState[];

export function projectState(state: ProjectState): { label: string; tone: Tone } {
  const { label, tone } = known(STATES, state, { label: state, tone: "neutral" });
  return { tone, label: i18next.t(label) };
}

export function roleLabel(role: ProjectRole): string {
  return i18next.t(known(ROLES, role, role));
}

export interface Rights {
  /** The user's role; null for users who are not members. */
  role: ProjectRole | null;
  admin: boolean;
  manages: boolean;
}

export function rightsIn(project: Pick<Project, "members" | "managers">, me: Me): Rights {
  const admin = me.user.role === "admin";
  const isManager = project.managers.includes(me.user.name);
  const role = isManager ? "manager" : project.members.includes(me.user.name) ? "member" : null;
  return { role, admin, manages: isManager || admin };
}

/** Whether the end date is near enough for a warning. */
export function endsSoon(project: Pick<Project, "expires_at" | "state">, now: Date): boolean {
  if (project.state !== "active" || project.expires_at === null) return false;
  return new Date(project.expires_at).getTime() - now.getTime() < SOON_DAYS * DAY * 1_000;
}

/** An end date in UTC, as it was set: "1 Dec 2026". */
export function dayOf(at: string): string {
  return new Date(at).toLocaleDateString(locale(), { year: "numeric", month: "short", day: "numeric", timeZone: "UTC" });
}

/** "2026-03" -> "March 2026", or "Mar 2026". */
export function monthName(month: string, short = false): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString(locale(), { year: "numeric", month: short ? "short" : "long", timeZone: "UTC" });
}

/** A month in three letters, for narrow bars: "Nov". */
export function monthLetters(month: string): string {
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString(locale(), { month: "short", timeZone: "UTC" }).slice(0, 3);
}

/** Conversion between a timestamp and the value of a date input: the start of the day in UTC. */
export const dayInput = (at: string | null): string => (at === null ? "" : at.slice(0, 10));
export const fromDayInput = (day: string): string | null => (day === "" ? null : `${day}T00:00:00Z`);

/** The day `days` after now, as the value of a date input. */
export function dayAhead(now: Date, days: number): string {
  return new Date(now.getTime() + days * DAY * 1_000).toISOString().slice(0, 10);
}

export function isOpen(invitation: Invitation, now: Date): boolean {
  return invitation.revoked_at === null && new Date(invitation.expires_at) > now && invitation.uses < invitation.max_uses;
}

export interface Bar {
  user: string;
  total: number;
  /** Hours by type, in the order of `types`; hours without a type are last. */
  parts: number[];
}

/** Bars by descending usage: GPU-hours where there are any, else CPU-hours. */
export function usageBars(rows: readonly UsageRow[]): { unit: "gpu" | "cpu"; types: string[]; bars: Bar[] } {
  const gpu = rows.some((row) => row.gpu_hours > 0);
  const named = [...new Set(rows.flatMap((row) => Object.keys(row.gpu_hours_by_type)))].sort();
  const untyped = (row: UsageRow) => Math.max(0, row.gpu_hours - Object.values(row.gpu_hours_by_type).reduce((sum, hours) => sum + hours, 0));
  const hasUntyped = gpu && rows.some((row) => untyped(row) > 0.005);
  const types = gpu ? [...named, ...(hasUntyped ? [""] : [])] : [""];
  const bars = rows.map((row) => ({
    user: row.user,
    total: gpu ? row.gpu_hours : row.cpu_hours,
    parts: gpu ? types.map((type) => (type === "" ? untyped(row) : (row.gpu_hours_by_type[type] ?? 0))) : [row.cpu_hours],
  }));
  return { unit: gpu ? "gpu" : "cpu", types, bars: bars.sort((a, b) => b.total - a.total || a.user.localeCompare(b.user)) };
}
