import { expect, it } from "vitest";
import type { PartitionQueue, Reservation } from "@/api/types";
import { bookings, calendarDays, placeOf, waitShares } from "./queues";

const now = new Date(2026, 2, 10, 15, 0);
const reservation = (name: string, from: Date | null, to: Date | null): Reservation => ({
  name, starts_at: from?.toISOString() ?? null, ends_at: to?.toISOString() ?? null, nodes: ["n1"], accounts: ["vision"], users: ["ada"],
});

it("lists what has not ended, by start, with maintenance", () => {
  const found = bookings(
    [reservation("later", new Date(2026, 2, 12), new Date(2026, 2, 13)), reservation("over", new Date(2026, 2, 1), new Date(2026, 2, 2)), reservation("endless", new Date(2026, 2, 1), null)],
    { phase: "scheduled", starts_at: new Date(2026, 2, 11).toISOString(), ends_at: null, message: "New switches" },
    now,
  );
  expect(found.map((booking) => [booking.kind, booking.name])).toEqual([["reservation", "endless"], ["maintenance", "New switches"], ["reservation", "later"]]);
  expect(found[0]?.holders).toEqual(["vision", "ada"]);
  expect(bookings([], { phase: "off", starts_at: null, ends_at: null, message: "" }, now)).toEqual([]);
});

it("places a booking on the days from today", () => {
  const days = calendarDays(now);
  expect(days.length).toBe(15);
  const place = (from: Date | null, to: Date | null) => {
    const booking = { kind: "reservation" as const, name: "", starts: from, ends: to, nodes: [], holders: [] };
    const found = placeOf(booking, days);
    return found && [Math.round(found.start * 14), Math.round(found.length * 14)];
  };
  expect(place(new Date(2026, 2, 12), new Date(2026, 2, 14))).toEqual([2, 2]);
  expect(place(new Date(2026, 1, 1), null)).toEqual([0, 14]);
  expect(place(new Date(2026, 4, 1), null)).toBeNull();
});

it("has shares of wait times, also where no job started", () => {
  const queue = { started_jobs: 4, waits: [{ below_s: 60, jobs: 3 }, { below_s: null, jobs: 1 }] } as PartitionQueue;
  expect(waitShares(queue)).toEqual([0.75, 0.25]);
  expect(waitShares({ ...queue, started_jobs: 0, waits: [{ below_s: null, jobs: 0 }] })).toEqual([0]);
});
