import { describe, expect, it } from "vitest";
import type { JobProfile } from "@/api/types";
import { extentOf, formatShare, formatSpan, historyOf, sharesOf, sizeOf, stragglerOf, verdictOf } from "./profile";

const profile = (change: Partial<JobProfile>): JobProfile => ({
  schema: 1,
  written_at: "2026-11-21T20:00:10.000Z",
  final: false,
  size: 4,
  steps: 400,
  step_s: 0.1151694,
  elapsed_s: 46,
  communicating: 0.4607,
  blocked: 0.169,
  overlap: 0.63,
  straggler: null,
  table: [],
  ranks: [],
  history: [],
  ...change,
});

describe("numbers of a profile", () => {
  it("are given in the unit that people would choose", () => {
    expect([6.3e-6, 0.0115, 0.9999, 2.5, 0].map(formatSpan)).toEqual(["6.3 µs", "11.5 ms", "1,000 ms", "2.5 s", "0 µs"]);
    expect([0, 0.0001, 0.004, 0.0961, 0.4607, 1, null].map(formatShare)).toEqual(["0 %", "< 0.1 %", "0.4 %", "9.6 %", "46 %", "100 %", "–"]);
  });

  it("name sizes of messages by their bounds", () => {
    expect(sizeOf({ from_bytes: 0, to_bytes: 128 })).toBe("up to 128 B");
    expect(sizeOf({ from_bytes: 1048577, to_bytes: 16777216 })).toBe("1 MB – 16 MB");
    expect(sizeOf({ from_bytes: 67108865, to_bytes: null })).toBe("over 64 MB");
  });
});

describe("what a profile means", () => {
  it("says whether training waits", () => {
    expect(verdictOf(profile({}))).toBe("Training stands still for communication in 17 % of its time.");
    expect(verdictOf(profile({ blocked: 0.01 }))).toMatch(/nearly all of it is hidden/);
    expect(verdictOf(profile({ blocked: 0.01, communicating: 0.02 }))).toBe("Training hardly waits for communication.");
    expect(verdictOf(profile({ steps: 0, blocked: null }))).toMatch(/marks no training steps/);
  });

  it("names the rank that the others wait for", () => {
    expect(stragglerOf(profile({}))).toBeNull();
    const late = { rank: 3, node: 1, behind_s: 0.0141, share: 0.1222 };
    expect(stragglerOf(profile({ straggler: late }))).toBe(
      "Rank 3 on node 1 is 14.1 ms behind the others in each step (12 % of it). The others wait for it.",
    );
  });

  it("says how far the run has come", () => {
    expect(extentOf(profile({}))).toBe("400 steps of 115 ms on 4 ranks");
    expect(extentOf(profile({ steps: 0, size: 1 }))).toBe("1 rank");
  });
});

it("puts a profile's history on the clock and leaves gaps where nothing is known", () => {
  const history = [
    { t_s: 2, steps: 10, step_s: 0.2, communicating: 0.5, blocked: 0.25 },
    { t_s: 4, steps: 20, step_s: 0.2, communicating: null, blocked: 0.5 },
  ];
  const series = historyOf(profile({ history }));
  const end = Date.parse("2026-11-21T20:00:10.000Z") / 1000;
  expect(series.times).toEqual([end - 2, end]);
  expect(series.lines.map((line) => line.values)).toEqual([
    [50, null],
    [25, 50],
  ]);
});

it("shares the time of communication among the rows", () => {
  const row = { op: "allreduce", from_bytes: 0, to_bytes: 128, count: 1, bytes: 1, fastest_s: 0, slowest_s: 0, bus_bytes_per_s: 0 };
  expect(sharesOf([{ ...row, time_s: 3 }, { ...row, time_s: 1 }])).toEqual([0.75, 0.25]);
  expect(sharesOf([{ ...row, time_s: 0 }])).toEqual([0]);
});
