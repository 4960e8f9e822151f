import { useTranslation } from "react-i18next";
import type { RankMetrics } from "@/api/ranks";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { formatShare, formatSpan } from "./profile";
import { figuresOf, formatQuantity, type Quantity, rowsOf } from "./rank-metrics";

/** The same values as the charts, as text: a table of ranks and one of nodes. */
export function RankTable({ metrics }: { metrics: RankMetrics }) {
  return (
    <>
      {metrics.ranks.length > 0 && <Ranks metrics={metrics} />}
      <Nodes metrics={metrics} />
    </>
  );
}

/** "avg 40 %, peak 60 %" of each row by its key. */
function useSummaries(metrics: RankMetrics, quantity: Quantity): (key: string) => string {
  const { t } = useTranslation();
  const rows = new Map(rowsOf(metrics, quantity).map((row) => [row.key, row]));
  return (key) => {
    const row = rows.get(key);
    const figures = row === undefined ? null : figuresOf(row);
    if (figures === null) return "–";
    const parts = [t("avg {{mean}}", { mean: formatQuantity(quantity, figures.mean) }), t("peak {{most}}", { most: formatQuantity(quantity, figures.peak) })];
    // A narrow column breaks between the two figures, and not between a figure and its unit.
    return parts.map((part) => part.replaceAll(" ", "\u00a0")).join(", ");
  };
}

const orDash = (value: number | null, format: (value: number) => string) => (value === null ? "–" : format(value));

function Ranks({ metrics }: { metrics: RankMetrics }) {
  const { t } = useTranslation();
  const gpu = useSummaries(metrics, "gpu");
  const memory = useSummaries(metrics, "gpu-memory");
  const columns: Column<RankMetrics["ranks"][number]>[] = [
    { header: t("Rank"), cell: ({ rank, straggler }) => t(straggler ? "Rank {{rank}}, straggler" : "Rank {{rank}}", { rank }) },
    { header: t("Node"), cell: ({ node }) => node ?? "–" },
    { header: t("GPU utilization"), cell: ({ rank }) => gpu(String(rank)) },
    { header: t("GPU memory"), cell: ({ rank }) => memory(String(rank)) },
    { header: t("Step time"), cell: ({ step_s }) => orDash(step_s, formatSpan) },
    { header: t("Exposed communication"), cell: ({ blocked }) => formatShare(blocked) },
    { header: t("Behind the others, per step"), cell: ({ behind_s }) => orDash(behind_s, formatSpan) },
  ];
  return <DataTable caption={t("Usage by rank")} scrolls columns={columns} rows={metrics.ranks} rowKey={({ rank }) => rank} testId="rank-table" />;
}

function Nodes({ metrics }: { metrics: RankMetrics }) {
  const { t } = useTranslation();
  const cpu = useSummaries(metrics, "cpu");
  const memory = useSummaries(metrics, "memory");
  const gpu = useSummaries(metrics, "node-gpu");
  const columns: Column<RankMetrics["nodes"][number]>[] = [
    { header: t("Node"), cell: ({ node }) => node },
    { header: t("Ranks"), cell: ({ ranks }) => ranks.join(", ") || "–" },
    { header: t("CPUs"), cell: ({ node }) => cpu(node) },
    { header: t("Memory"), cell: ({ node }) => memory(node) },
    { header: t("GPU utilization"), cell: ({ node }) => gpu(node) },
  ];
  return <DataTable caption={t("Usage by node")} scrolls columns={columns} rows={metrics.nodes} rowKey={({ node }) => node} />;
}
