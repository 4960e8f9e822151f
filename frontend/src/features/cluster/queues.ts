/** Wait times and reservations as shares of a chart. */
import type { PartitionQueue, Reservation } from "@/api/types";
import { DAY } from "@/lib/time";

/** Shares of the started jobs by wait time, the shortest first; they add up to 1. */
export function waitShares(queue: PartitionQueue): number[] {
  return queue.waits.map((wait) => (queue.started_jobs === 0 ? 0 : wait.jobs / queue.started_jobs));
}

/** A period in the calendar: a reservation of the scheduler, or maintenance. */
export interface Booking {
  kind: "reservation" | "maintenance";
  name: string;
  starts: Date | null;
  /** None: without an end. */
  ends: Date | null;
  nodes: readonly string[];
  /** Accounts and users that may use it. */
  holders: readonly string[];
}

/** The next maintenance, null without one, as far as the calendar shows it. */
export interface NextMaintenance {
  phase: string;
  starts_at: string | null;
  ends_at: string | null;
  message: string;
}

/** Everything that has not ended, by start. */
export function bookings(reservations: readonly Reservation[], maintenance: NextMaintenance | undefined, now: Date): Booking[] {
  const moment = (text: string | null) => (text === null ? null : new Date(text));
  const all: Booking[] = reservations.map((one) => ({
    kind: "reservation", name: one.name, starts: moment(one.starts_at), ends: moment(one.ends_at), nodes: one.nodes, holders: [...one.accounts, ...one.users],
  }));
  if (maintenance !== undefined && maintenance.phase !== "off") {
    all.push({ kind: "maintenance", name: maintenance.message, starts: moment(maintenance.starts_at), ends: moment(maintenance.ends_at), nodes: [], holders: [] });
  }
  return all
    .filter((booking) => booking.ends === null || booking.ends > now)
    .sort((a, b) => (a.starts?.getTime() ?? 0) - (b.starts?.getTime() ?? 0) || a.name.localeCompare(b.name));
}

/** Number of days that the calendar shows, from today. */
export const CALENDAR_DAYS = 14;

/** Midnights of the days in the calendar, in the browser's time zone, and that after the last. */
export function calendarDays(now: Date): Date[] {
  return Array.from({ length: CALENDAR_DAYS + 1 }, (_, day) => new Date(now.getFullYear(), now.getMonth(), now.getDate() + day));
}

/** Start and length of a booking in the calendar as shares, 0 to 1; null: it is outside. */
export function placeOf(booking: Booking, days: readonly Date[]): { start: number; length: number } | null {
  const from = days[0]?.getTime() ?? 0;
  const until = days.at(-1)?.getTime() ?? from + DAY * 1000;
  const start = Math.max(from, booking.starts?.getTime() ?? from);
  const end = Math.min(until, booking.ends?.getTime() ?? until);
  if (end <= start) return null;
  return { start: (start - from) / (until - from), length: (end - start) / (until - from) };
}
