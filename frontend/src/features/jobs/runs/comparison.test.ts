import { beforeAll, describe, expect, it } from "vitest";
import type { Comparison } from "@/api/runs";
import { startTexts } from "@/i18n/index";
import { mergeComparisons, nameOf, shownSections, textOf, titleOf } from "./comparison";

const run = { id: "a", name: "x", owner: "ada", state: "COMPLETED" as const, created_at: "2026-03-01T12:00:00Z", array_task_id: null, diff: null };
const row = (field: string, a: string | number | null, b: string | number | null, unit: string | null = null) => ({ field, a, b, equal: a === b, unit });

const PAIR: Comparison = {
  a: run,
  b: run,
  differences: 1,
  sections: [
    { key: "job", rows: [row("name", "x", "x")], equal_omitted: 0, note: null },
    { key: "packages", rows: [], equal_omitted: 0, note: "Not known." },
    { key: "metrics", rows: [row("name", 1, 2), row("loss", 3, 3)], equal_omitted: 0, note: null },
  ],
};

const COMPARISON = mergeComparisons([PAIR]);

beforeAll(startTexts);

describe("a comparison", () => {
  it("shows only differences, or all rows", () => {
    expect(shownSections(COMPARISON, true).map((each) => [each.key, each.rows.length])).toEqual([["metrics", 1]]);
    expect(shownSections(COMPARISON, false).map((each) => each.key)).toEqual(["job", "packages", "metrics"]);
  });

  it("merges several runs with the first as their reference", () => {
    const packages = (rows: ReturnType<typeof row>[], omitted: number) => ({ key: "packages", rows, equal_omitted: omitted, note: null });
    const pair = (b: string, sections: Comparison["sections"]): Comparison => ({ a: run, b: { ...run, id: b }, differences: 0, sections });
    const merged = mergeComparisons([
      pair("b", [packages([row("torch", "2.1", "2.2")], 10), { key: "parameters", rows: [row("lr", 1, 1)], equal_omitted: 0, note: null }]),
      pair("c", [packages([row("numpy", "1", null)], 10), { key: "parameters", rows: [row("lr", 1, 2)], equal_omitted: 0, note: null }]),
    ]);
    expect(merged.runs.map((each) => each.id)).toEqual(["a", "b", "c"]);
    expect(merged.differences).toBe(3);
    expect(mergeComparisons([
      pair("b", [packages([row("torch", "2.1", "2.2")], 10)]),
      pair("c", [{ ...packages([], 0), note: "Not known." }]),
    ]).sections[0]).toMatchObject({ rows: [{ values: ["2.1", "2.2", null] }], notes: [{ runs: "A, C", text: "Not known." }] });
    const [parameters, software] = merged.sections;
    expect(software?.rows.map((each) => [each.field, each.values])).toEqual([["torch", ["2.1", "2.2", "2.1"]], ["numpy", ["1", "1", null]]]);
    expect(software?.equal_omitted).toBe(9);
    expect(parameters?.rows[0]).toMatchObject({ values: [1, 1, 2], different: [false, false, true], equal: false });
  });

  it("labels the platform's fields and keeps the user's names", () => {
    const names = COMPARISON.sections.map((section) => section.rows.map((each) => nameOf(section, each)));
    expect(names).toEqual([["Name"], [], ["name", "loss"]]);
    expect(COMPARISON.sections.map(titleOf)).toEqual(["Job file", "Software", "Metrics"]);
  });

  it("formats values with their units", () => {
    const inUse = (unit: string | null, value: string | number | null) => textOf({ key: "use" }, { field: "memory_max_bytes", unit }, value);
    expect(inUse("bytes", 2 ** 30)).toBe("1\u00a0GiB");
    expect(inUse("share", 0.5)).toBe("50\u00a0%");
    expect(inUse(null, null)).toBeNull();
    expect(inUse(null, "text")).toBe("text");
  });

  it("shows states and reasons of the platform by their labels", () => {
    const shown = (key: string, field: string, value: string) => textOf({ key }, { field, unit: null }, value);
    expect(shown("outcome", "state", "TIMED_OUT")).toBe("Time limit");
    expect(shown("outcome", "reason", "dependency_failed")).toBe("Dependency failed");
    expect(shown("outcome", "reason", "of_a_newer_release")).toBe("of_a_newer_release");
    expect(shown("parameters", "state", "TIMED_OUT")).toBe("TIMED_OUT");
  });
});
