import { describe, expect, it } from "vitest";
import { changesInbox, notificationOf } from "@/lib/notification-events";

const NOW = new Date("2026-03-01T12:00:00Z");
const DATA = { id: 7, popup: true, kind: "job_finished", level: "success", title: "train has finished", text: "", data: {} };
const event = (changes: object) => ({ id: 9, kind: "notification.added", owner: "ada", time: "2026-03-01T11:59:30Z", data: DATA, ...changes });

describe("notificationOf", () => {
  it("returns recent notifications of the user", () => {
    expect(notificationOf(event({}), "ada", NOW)?.id).toBe(7);
  });
  it.each([
    ["another person's, which administrators hear of too", { owner: "bob" }],
    ["what was missed long ago", { time: "2026-03-01T11:00:00Z" }],
    ["what is to be kept quiet", { data: { ...DATA, popup: false } }],
    ["other events", { kind: "job.state" }],
  ])("leaves %s", (_, changes) => {
    expect(notificationOf(event(changes), "ada", NOW)).toBeNull();
  });
});

describe("changesInbox", () => {
  it("detects events of the user's inbox", () => {
    expect(changesInbox(event({ kind: "notification.read" }), "ada")).toBe(true);
    expect(changesInbox(event({}), "bob")).toBe(false);
    expect(changesInbox(null, "ada")).toBe(false);
  });
});
