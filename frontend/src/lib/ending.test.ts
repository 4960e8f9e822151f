import { describe, expect, it } from "vitest";
import type { JobEvent } from "@/api/types";
import { endingKey, endingOf, endingTitle, SOON_S, soonOf } from "@/lib/ending";
import { historyOf } from "@/lib/history";

const NOW = new Date("2026-03-01T12:00:00Z");

function event(fields: Partial<JobEvent>, data: Record<string, unknown> = {}): JobEvent {
  return {
    id: 7,
    time: "2026-03-01T12:00:00Z",
    kind: "job.ending",
    job_id: "j1",
    owner: "ada",
    project: "vision",
    data: { name: "Notes", left_s: 600, expires_at: "2026-03-01T12:10:00Z", ...data },
    ...fields,
  };
}

it("warns of the last tenth of a job, and of the last minutes of a session", () => {
  expect(soonOf({ type: "job", max_duration_s: 600 })).toBe(60);
  expect(soonOf({ type: "job", max_duration_s: 86_400 })).toBe(SOON_S);
  expect(soonOf({ type: "session", max_duration_s: 600 })).toBe(SOON_S);
});

describe("a session that is about to end", () => {
  it("is announced to its owner", () => {
    const ending = endingOf(event({}), "ada", NOW);
    expect(ending).toEqual({ jobId: "j1", name: "Notes", leftS: 600, expiresAt: "2026-03-01T12:10:00Z" });
    expect(ending && endingTitle(ending)).toBe("Notes ends in 10\u00a0min");
  });

  it("is not announced to other users", () => {
    expect(endingOf(event({}), "bob", NOW)).toBeNull();
    expect(endingOf(event({ kind: "job.changed" }), "ada", NOW)).toBeNull();
  });

  it("is not announced after its end, when the feed reconnects", () => {
    expect(endingOf(event({}), "ada", new Date("2026-03-01T12:10:00Z"))).toBeNull();
  });

  it("is announced once for each end and step", () => {
    const keys = [event({}), event({ id: 8 }), event({}, { left_s: 120 }), event({}, { expires_at: "2026-03-01T13:00:00Z" })]
      .map((each) => endingOf(each, "ada", NOW))
      .map((ending) => ending && endingKey(ending));
    expect(new Set(keys).size).toBe(3);
  });
});

describe("a session's history", () => {
  it("contains extensions and the announced end", () => {
    const extended = event({ kind: "job.extended", data: { by: "ada", seconds: 3600, time_limit_s: 7200 } });
    expect(historyOf([extended, event({})], true).map((line) => line.title)).toEqual(["Extended by 1\u00a0h (ada)", "Ends in 10\u00a0min"]);
  });
});
