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
  it("have a suitable unit", () => {
    expect([6.3e-6, 0.0115, 0.9999, 2.5, 0].map(formatSpan)).toEqual(["6.3\u00a0µs", "11.5\u00a0ms", "1,000\u00a0ms", "2.5\u00a0s", "0\u00a0µs"]);
    expect([0, 0.0001, 0.004, 0.0961, 0.4607, 1, null].map(formatShare)).toEqual(["0\u00a0%", "< 0.1\u00a0%", "0.4\u00a0%", "9.6\u00a0%", "46\u00a0%", "100\u00a0%", "–"]);
  });

  it("name sizes of messages by their bounds", () => {
    expect(sizeOf({ from_bytes: 0, to_bytes: 128 })).toBe("up to 128\u00a0B");
    expect(sizeOf({ from_bytes: 1048577, to_bytes: 16777216 })).toBe("1\u00a0MiB – 16\u00a0MiB");
    expect(sizeOf({ from_bytes: 67108865, to_bytes: null })).toBe("over 64\u00a0MiB");
  });
});

describe("texts of a profile", () => {
  it("summarizes the exposed communication", () => {
    expect(verdictOf(profile({}))).toBe("17\u00a0% exposed communication.");
    expect(verdictOf(profile({ blocked: 0.01 }))).toMatch(/almost all of it overlaps/);
    expect(verdictOf(profile({ blocked: 0.01, communicating: 0.02 }))).toBe("Little exposed communication.");
    expect(verdictOf(profile({ steps: 0, blocked: null }))).toMatch(/No training steps recorded/);
  });

  it("describes the straggler", () => {
    expect(stragglerOf(profile({}))).toBeNull();
    const late = { rank: 3, node: 1, behind_s: 0.0141, share: 0.1222 };
    expect(stragglerOf(profile({ straggler: late }))).toBe(
      "Straggler: rank 3 on node 1 is 14.1\u00a0ms slower in each step (12\u00a0% of the step time).",
    );
  });

  it("describes steps and ranks", () => {
    expect(extentOf(profile({}))).toBe("400 steps of 115\u00a0ms on 4 ranks");
    expect(extentOf(profile({ steps: 0, size: 1 }))).toBe("1 rank");
  });
});

it("converts a profile's history to times and leaves gaps for unknown values", () => {
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

it("computes each row's share of the communication time", () => {
  const row = { op: "allreduce", from_bytes: 0, to_bytes: 128, count: 1, bytes: 1, fastest_s: 0, slowest_s: 0, bus_bytes_per_s: 0 };
  expect(sharesOf([{ ...row, time_s: 3 }, { ...row, time_s: 1 }])).toEqual([0.75, 0.25]);
  expect(sharesOf([{ ...row, time_s: 0 }])).toEqual([0]);
});
