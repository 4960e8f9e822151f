import { describe, expect, it } from "vitest";
import { isFailure, isTerminal, lookOf, STATE_GROUPS, statesOfGroup } from "./states";

describe("states", () => {
  it("belong to one group of the filter each", () => {
    const all = STATE_GROUPS.flatMap((group) => [...group.states]);
    expect(new Set(all).size).toBe(all.length);
    expect(all).toHaveLength(18);
    expect(statesOfGroup("failed").every(isFailure)).toBe(true);
    expect(statesOfGroup(undefined)).toEqual([]);
  });

  it("have other labels for sessions", () => {
    expect(lookOf("RUNNING", { session: true }).label).toBe("Connecting");
    expect(lookOf("CANCELLED", { session: true }).label).toBe("Stopped");
    expect(lookOf("RUNNING", { cancelRequested: true }).label).toBe("Cancelling");
    expect(lookOf("FAILED", { cancelRequested: true }).label).toBe("Failed");
  });

  it("UNKNOWN never means finished", () => expect(isTerminal("UNKNOWN")).toBe(false));

  it("that are unknown are shown by their name", () =>
    expect(lookOf("HIBERNATING" as "QUEUED").label).toBe("HIBERNATING"));
});
