import { expect, it } from "vitest";
import type { Job } from "@/api/types";
import { canHaveRanks, sessionsWithCard } from "./session-cards";

const now = new Date("2026-03-01T12:00:00Z");
const session = (id: string, state: Job["state"], ended: string | null = null): Job => ({ id, state, ended_at: ended }) as Job;

it("keeps live and failed sessions, and stopped ones for an hour", () => {
  const all = [
    session("live", "READY"),
    session("failed", "FAILED", "2026-01-01T00:00:00Z"),
    session("away", "LOST", "2026-03-01T11:59:00Z"),
    session("stopped", "CANCELLED", "2026-03-01T11:30:00Z"),
    session("old", "CANCELLED", "2026-03-01T10:30:00Z"),
  ];
  expect(sessionsWithCard(all, new Set(["away", "live"]), now).map((job) => job.id)).toEqual(["live", "failed", "stopped"]);
});

it("offers ranks where a notebook can use them", () => {
  const running = { type: "session", state: "READY", entry_points: [{ name: "lab" }] } as Job;
  expect(canHaveRanks(running)).toBe(true);
  expect(canHaveRanks({ ...running, state: "QUEUED" })).toBe(false);
  expect(canHaveRanks({ ...running, entry_points: [] })).toBe(false);
  expect(canHaveRanks({ ...running, type: "job" })).toBe(false);
});
