import { describe, expect, it } from "vitest";
import { fromField, stageOf, toField } from "./severity";

describe("announcements in time", () => {
  const now = new Date("2026-03-01T12:00:00Z");

  it("are shown from their start to before their end", () => {
    const starts_at = "2026-03-01T12:00:00Z";
    expect(stageOf({ starts_at, ends_at: null }, now)).toBe("current");
    expect(stageOf({ starts_at: "2026-03-01T12:00:01Z", ends_at: null }, now)).toBe("future");
    expect(stageOf({ starts_at: "2026-03-01T11:00:00Z", ends_at: starts_at }, now)).toBe("past");
  });

  it("keep their time in an input of the browser's time zone", () => {
    expect(fromField(toField("2026-07-01T22:30:00.000Z"))).toBe("2026-07-01T22:30:00.000Z");
    expect(toField(null)).toBe("");
    expect(fromField("")).toBeNull();
  });
});
