/** A sweep's table and plot: order, axes and CSV export. */
import type { Sweep, SweepTask } from "@/api/runs";
import type { Scalar } from "@/api/types";
import { locale } from "@/i18n/locale";

/** Metric columns beyond this are only in the CSV export. */
export const MAX_METRICS = 8;

export interface Column {
  kind: "task" | "state" | "parameter" | "metric";
  name: string;
}

export interface Order {
  column: Column;
  descending: boolean;
}

/** The metrics of all tasks, the sweep's own first. */
export function metricsOf(sweep: Sweep): string[] {
  const names = new Set(sweep.tasks.flatMap((task) => [...Object.keys(task.values), ...Object.keys(task.not_finite)]));
  const others = [...names].filter((name) => name !== sweep.metric).sort();
  return sweep.metric !== null && names.has(sweep.metric) ? [sweep.metric, ...others] : others;
}

/** The initial order: best first, or by task number. */
export function firstOrder(sweep: Sweep): Order {
  return sweep.metric === null
    ? { column: { kind: "task", name: "" }, descending: false }
    : { column: { kind: "metric", name: sweep.metric }, descending: sweep.goal === "max" };
}

export function cellOf(task: SweepTask, column: Column): Scalar | null {
  if (column.kind === "task") return task.task;
  if (column.kind === "state") return task.state;
  return (column.kind === "parameter" ? task.parameters[column.name] : task.values[column.name]) ?? null;
}

/** The sorted tasks; those without a value are last in both directions. */
export function sorted(tasks: readonly SweepTask[], order: Order): SweepTask[] {
  const direction = order.descending ? -1 : 1;
  return [...tasks].sort((a, b) => {
    const left = cellOf(a, order.column);
    const right = cellOf(b, order.column);
    if (left === null || right === null) return Number(left === null) - Number(right === null) || a.task - b.task;
    return direction * compareCells(left, right) || a.task - b.task;
  });
}

function compareCells(a: Scalar, b: Scalar): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

const NOT_FINITE = { nan: "NaN", inf: "∞", "-inf": "−∞" } as const;

/** The last values of metrics in short form, by name; those that are not finite are marked as such. */
export function valuesOf({ values, not_finite: others }: Pick<SweepTask, "values" | "not_finite">): Record<string, string> {
  return Object.fromEntries([
    ...Object.entries(values).map(([name, value]) => [name, formatCell(value)] as const),
    ...Object.entries(others).map(([name, value]) => [name, NOT_FINITE[value]] as const),
  ]);
}

/** A value in short form with at most five significant digits. */
export function formatCell(value: Scalar | null): string {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2).replace(".", (1.5).toLocaleString(locale()).charAt(1));
  return value.toLocaleString(locale(), { maximumSignificantDigits: 5, useGrouping: false });
}

export interface Axis {
  column: Column;
  /** From 0 (bottom) to 1 (top); null: the task has no such value. */
  at: (task: SweepTask) => number | null;
  /** Labels from bottom to top. */
  ticks: { at: number; label: string }[];
}

/** An axis: numeric values on a linear or logarithmic scale, other values evenly spaced. */
export function axisOf(tasks: readonly SweepTask[], column: Column): Axis {
  const values = tasks.map((task) => cellOf(task, column)).filter((value) => value !== null);
  const numbers = values.filter((value) => typeof value === "number");
  if (numbers.length < values.length || numbers.length === 0) return categoryAxis(values, column);
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const logarithmic = low > 0 && high / low >= 50;
  const scale = logarithmic ? Math.log : (value: number) => value;
  const place = (value: number) => (low === high ? 0.5 : (scale(value) - scale(low)) / (scale(high) - scale(low)));
  const ends = low === high ? [low] : [low, high];
  return {
    column,
    at: (task) => {
      const value = cellOf(task, column);
      return typeof value === "number" ? place(value) : null;
    },
    ticks: ends.map((value) => ({ at: place(value), label: formatCell(value) })),
  };
}

function categoryAxis(values: readonly Scalar[], column: Column): Axis {
  const words = [...new Set(values.map(String))].sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
  const place = (word: string) => (words.length < 2 ? 0.5 : words.indexOf(word) / (words.length - 1));
  return {
    column,
    at: (task) => {
      const value = cellOf(task, column);
      return value === null ? null : place(String(value));
    },
    ticks: words.slice(0, 12).map((word) => ({ at: place(word), label: word })),
  };
}

/** The sweep as CSV. */
export function csvOf(sweep: Sweep): string {
  const metrics = metricsOf(sweep);
  const rows = sweep.tasks.map((task) => [
    task.task,
    task.job_id,
    task.state,
    ...sweep.parameters.map((name) => task.parameters[name] ?? ""),
  ]);
  const results = sweep.tasks.map((task) => metrics.map((name) => String(task.values[name] ?? task.not_finite[name] ?? "")));
  const lines = rows.map((row, index) => [...row.map(quoted), ...(results[index] ?? [])].join(","));
  return [["task", "job_id", "state", ...sweep.parameters, ...metrics].map(quoted).join(","), ...lines].join("\n");
}

function quoted(value: Scalar): string {
  const text = String(value);
  // Spreadsheets evaluate texts with such a prefix as formulas.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
