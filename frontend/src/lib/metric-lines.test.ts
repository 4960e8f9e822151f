import { expect, test } from "vitest";
import type { Results } from "@/api/runs";
import { alignedData, curvesOf, linesOf } from "./metric-lines";

function results(series: Record<string, [number, number][]>): Results {
  return { schema: 1, updated_at: "2026-01-01T00:00:00Z", values: {}, not_finite: {}, series, sources: [], notes: [] };
}

test("runs with different steps share one axis, with gaps", () => {
  const lines = [
    { name: "a", points: [[0, 1], [2, 3]] },
    { name: "b", points: [[1, 5]] },
  ];
  expect(alignedData(lines)).toEqual([
    [0, 1, 2],
    [1, null, 3],
    [null, 5, null],
  ]);
});

test("only metrics with a course have a chart, and only runs that measured them a line", () => {
  const a = results({ loss: [[0, 1], [1, 0.5]], final: [[0, 1]] });
  const b = results({ final: [[0, 2]] });
  expect(curvesOf([a, b, null])).toEqual(["loss"]);
  expect(linesOf("loss", [{ name: "a", results: a }, { name: "b", results: b }]).map((line) => line.name)).toEqual(["a"]);
});
