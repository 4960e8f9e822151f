import { describe, expect, it } from "vitest";
import type { Sweep } from "@/api/runs";
import { setLanguage } from "@/i18n";
import { axisOf, csvOf, firstOrder, formatCell, metricsOf, sorted, valuesOf } from "@/lib/sweep";

const task = (index: number, parameters: Record<string, string | number | boolean>, values: Record<string, number> = {}) => ({
  task: index,
  job_id: `id-${index}`,
  state: "COMPLETED" as const,
  parameters,
  values,
  not_finite: {},
  started_at: null,
  ended_at: null,
});

const SWEEP: Sweep = {
  job_id: "array",
  method: "grid",
  parameters: ["lr", "optimizer"],
  metric: "accuracy",
  goal: "max",
  stop_when: null,
  best: 1,
  tasks: [
    task(0, { lr: 0.1, optimizer: "sgd" }, { accuracy: 0.5, aloss: 2 }),
    task(1, { lr: 0.001, optimizer: "adam, quick" }, { accuracy: 0.9 }),
    task(2, { lr: 0.01, optimizer: "=sum" }),
  ],
};

describe("a sweep", () => {
  it("sorts the best first, and tasks without a value last in both directions", () => {
    const order = firstOrder(SWEEP);
    expect(sorted(SWEEP.tasks, order).map((each) => each.task)).toEqual([1, 0, 2]);
    expect(sorted(SWEEP.tasks, { ...order, descending: false }).map((each) => each.task)).toEqual([0, 1, 2]);
    expect(firstOrder({ ...SWEEP, metric: null }).column.kind).toBe("task");
  });

  it("marks what diverged, which has no value to be ranked by", () => {
    const diverged = { ...task(3, { lr: 1, optimizer: "sgd" }, { aloss: 9 }), not_finite: { accuracy: "nan" as const, gap: "-inf" as const } };
    const sweep = { ...SWEEP, tasks: [...SWEEP.tasks, diverged] };
    expect(sorted(sweep.tasks, firstOrder(sweep)).map((each) => each.task)).toEqual([1, 0, 2, 3]);
    expect(metricsOf(sweep)).toEqual(["accuracy", "aloss", "gap"]);
    expect(valuesOf(diverged)).toEqual({ accuracy: "NaN", aloss: "9", gap: "−∞" });
    expect(csvOf(sweep).split("\n")[4]).toBe("3,id-3,COMPLETED,1,sgd,nan,9,-inf");
  });

  it("has its own metric before the others", () => {
    expect(metricsOf(SWEEP)).toEqual(["accuracy", "aloss"]);
  });

  it("uses a logarithmic scale for wide ranges, and even spacing for texts", () => {
    const rates = axisOf(SWEEP.tasks, { kind: "parameter", name: "lr" });
    expect(SWEEP.tasks.map((each) => rates.at(each)?.toFixed(2))).toEqual(["1.00", "0.00", "0.50"]);
    const words = axisOf(SWEEP.tasks, { kind: "parameter", name: "optimizer" });
    expect(words.ticks).toHaveLength(3);
    const metric = axisOf(SWEEP.tasks, { kind: "metric", name: "accuracy" });
    expect(SWEEP.tasks.map((each) => metric.at(each))).toEqual([0, 1, null]);
    const none = axisOf([], { kind: "metric", name: "x" });
    expect(none.ticks).toEqual([]);
  });

  it("is exported as CSV without formulas", () => {
    const lines = csvOf(SWEEP).split("\n");
    expect(lines[0]).toBe("task,job_id,state,lr,optimizer,accuracy,aloss");
    expect(lines[2]).toBe('1,id-1,COMPLETED,0.001,"adam, quick",0.9,');
    expect(lines[3]).toContain("'=sum");
  });

  it("formats numbers in short form", async () => {
    // What a browser has and Node has not.
    Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
    await setLanguage("de");
    expect([0.5, 4.52e-4].map(formatCell)).toEqual(["0,5", "4,52e-4"]);
    await setLanguage("en");
    expect([0.93456789, 1e-5, 0, 12, true, null].map(formatCell)).toEqual(["0.93457", "1.00e-5", "0", "12", "true", "–"]);
  });
});
