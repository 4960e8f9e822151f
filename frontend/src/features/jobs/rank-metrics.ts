/** Resource usage by node and rank as rows of small charts, of a heat map and of a table. */
import i18next from "i18next";
import type { RankMetrics } from "@/api/ranks";
import { formatBytes, formatNumber, withUnit } from "@/lib/units";
import { formatSpan } from "./profile";

type NodeUse = RankMetrics["nodes"][number];
type RankUse = RankMetrics["ranks"][number];

/** With more rows than these, each chart would be too small to read. */
export const MOST_CHARTS = 64;

/** What can be shown: of the GPU of each rank, or of each node. */
export type Quantity = "gpu" | "gpu-memory" | "node-gpu" | "cpu" | "memory";

export interface Row {
  key: string;
  name: string;
  /** Node of a rank; null for a row of a node. */
  node: string | null;
  straggler: boolean;
  /** Unix milliseconds and values; null: not measured. */
  points: { time: number; value: number | null }[];
  /** The upper end of the axis. */
  limit: number;
}

/** Quantities with at least one measurement, those of ranks first. */
export function quantitiesOf(metrics: RankMetrics): Quantity[] {
  return (["gpu", "gpu-memory", "node-gpu", "cpu", "memory"] as const).filter((quantity) => {
    const rows = rowsOf(metrics, quantity);
    return rows.some((row) => row.points.some(({ value }) => value !== null));
  });
}

export function rowsOf(metrics: RankMetrics, quantity: Quantity): Row[] {
  if (quantity === "gpu") return ranksAs(metrics, (point) => point.utilization * 100, () => 100);
  if (quantity === "gpu-memory") return ranksAs(metrics, (point) => point.memory_bytes, (most) => most);
  if (quantity === "node-gpu") return nodesAs(metrics, (point) => (point.gpu_utilization === null ? null : point.gpu_utilization * 100), () => 100);
  if (quantity === "cpu") return nodesAs(metrics, (point) => point.cpu, (node) => node.cpus);
  return nodesAs(metrics, (point) => point.memory_bytes, (node) => node.memory_limit_bytes);
}

function ranksAs({ ranks }: RankMetrics, pick: (point: RankUse["points"][number]) => number, limitOf: (most: number) => number): Row[] {
  const measured = ranks.filter(({ points }) => points.length > 0);
  const most = measured.reduce((max, { points }) => points.reduce((peak, point) => Math.max(peak, pick(point)), max), 0);
  return measured.map(({ rank, node, straggler, points }) => ({
    key: String(rank),
    name: i18next.t("Rank {{rank}}", { rank }),
    node,
    straggler,
    points: points.map((point) => ({ time: Date.parse(point.time), value: pick(point) })),
    limit: limitOf(most) || 1,
  }));
}

function nodesAs({ nodes }: RankMetrics, pick: (point: NodeUse["points"][number]) => number | null, limitOf: (node: NodeUse) => number): Row[] {
  return nodes.map((node) => ({
    key: node.node,
    name: node.node,
    node: null,
    straggler: node.straggler,
    points: node.points.map((point) => ({ time: Date.parse(point.time), value: pick(point) })),
    limit: limitOf(node) || 1,
  }));
}

export function formatQuantity(quantity: Quantity, value: number): string {
  if (quantity === "gpu-memory" || quantity === "memory") return formatBytes(value);
  return quantity === "cpu" ? formatNumber(value) : withUnit(Math.round(value), "%");
}

/** The newest value, the mean and the largest one; null without measurements. */
export function figuresOf(row: Row): { last: number; mean: number; peak: number } | null {
  const values = row.points.flatMap(({ value }) => (value === null ? [] : [value]));
  const last = values.at(-1);
  if (last === undefined) return null;
  return { last, mean: values.reduce((sum, value) => sum + value, 0) / values.length, peak: Math.max(...values) };
}

/** The first and the last time of all rows; null without any. */
export function spanOf(rows: readonly Row[]): { from: number; to: number } | null {
  const times = rows.flatMap(({ points }) => [points[0]?.time, points.at(-1)?.time]).filter((time) => time !== undefined);
  return times.length === 0 ? null : { from: Math.min(...times), to: Math.max(...times) };
}

/** The row as a line in a box of `width` by `height`, interrupted where nothing was measured. */
export function linePath(row: Row, span: { from: number; to: number }, width: number, height: number): string {
  const x = (time: number) => round(span.to === span.from ? width : ((time - span.from) / (span.to - span.from)) * width);
  const y = (value: number) => round(height - (Math.min(value, row.limit) / row.limit) * height);
  let open = false;
  return row.points
    .flatMap(({ time, value }) => {
      if (value === null) {
        open = false;
        return [];
      }
      const step = `${open ? "L" : "M"}${x(time)} ${y(value)}`;
      open = true;
      return [step];
    })
    .join("");
}

/**
 * Divides `span` (Unix ms) into `columns` equal intervals and returns the mean of each as a fraction of `row.limit`, at most 1; null
 * for intervals without samples.
 */
export function sharesOverTime(row: Row, span: { from: number; to: number }, columns: number): (number | null)[] {
  const sums = Array.from({ length: columns }, () => ({ sum: 0, count: 0 }));
  for (const { time, value } of row.points) {
    const column = span.to === span.from ? 0 : Math.min(columns - 1, Math.floor(((time - span.from) / (span.to - span.from)) * columns));
    const cell = sums[column];
    if (value === null || cell === undefined) continue;
    cell.sum += value;
    cell.count += 1;
  }
  return sums.map(({ sum, count }) => (count === 0 ? null : Math.min(1, sum / count / row.limit)));
}

/** As many columns as the longest row has points, so that none is empty for its own sake. */
export function columnsOf(rows: readonly Row[]): number {
  return Math.max(1, ...rows.map(({ points }) => points.length));
}

/** "Rank 3 on node02 is 40 ms slower in each step than the median of the others." */
export function stragglersOf({ ranks }: RankMetrics): string[] {
  return ranks.flatMap(({ rank, node: name, straggler, behind_s: behind }) => {
    const node = name ?? "–";
    return straggler
      ? [
          behind === null
            ? i18next.t("Rank {{rank}} on node {{node}} is slower than the others.", { rank, node })
            : i18next.t("Rank {{rank}} on node {{node}} is {{time}} slower in each step than the median of the others.", { rank, node, time: formatSpan(behind) }),
        ]
      : [];
  });
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
