import { useTranslation } from "react-i18next";
import type { RankMetrics } from "@/api/ranks";
import { formatShare, formatSpan } from "./profile";
import { figuresOf, formatQuantity, type Quantity, rowsOf } from "./rank-metrics";
import tableClasses from "@/components/table.module.css";

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
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <div className={tableClasses.wrap} tabIndex={0} role="group" aria-label={t("Usage by rank")}>
      <table className={`${tableClasses.table ?? ""} tabular`} data-testid="rank-table">
        <caption className="visually-hidden">{t("Usage by rank")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("Rank")}</th>
            <th scope="col">{t("Node")}</th>
            <th scope="col">{t("GPU utilization")}</th>
            <th scope="col">{t("GPU memory")}</th>
            <th scope="col">{t("Step time")}</th>
            <th scope="col">{t("Exposed communication")}</th>
            <th scope="col">{t("Behind the others, per step")}</th>
          </tr>
        </thead>
        <tbody>
          {metrics.ranks.map((rank) => (
            <tr key={rank.rank}>
              <td>{t(rank.straggler ? "Rank {{rank}}, straggler" : "Rank {{rank}}", { rank: rank.rank })}</td>
              <td data-label={t("Node")}>{rank.node ?? "–"}</td>
              <td data-label={t("GPU utilization")}>{gpu(String(rank.rank))}</td>
              <td data-label={t("GPU memory")}>{memory(String(rank.rank))}</td>
              <td data-label={t("Step time")}>{orDash(rank.step_s, formatSpan)}</td>
              <td data-label={t("Exposed communication")}>{formatShare(rank.blocked)}</td>
              <td data-label={t("Behind the others, per step")}>{orDash(rank.behind_s, formatSpan)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Nodes({ metrics }: { metrics: RankMetrics }) {
  const { t } = useTranslation();
  const cpu = useSummaries(metrics, "cpu");
  const memory = useSummaries(metrics, "memory");
  const gpu = useSummaries(metrics, "node-gpu");
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <div className={tableClasses.wrap} tabIndex={0} role="group" aria-label={t("Usage by node")}>
      <table className={`${tableClasses.table ?? ""} tabular`}>
        <caption className="visually-hidden">{t("Usage by node")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("Node")}</th>
            <th scope="col">{t("Ranks")}</th>
            <th scope="col">{t("CPUs")}</th>
            <th scope="col">{t("Memory")}</th>
            <th scope="col">{t("GPU utilization")}</th>
          </tr>
        </thead>
        <tbody>
          {metrics.nodes.map((node) => (
            <tr key={node.node}>
              <td>{node.node}</td>
              <td data-label={t("Ranks")}>{node.ranks.join(", ") || "–"}</td>
              <td data-label={t("CPUs")}>{cpu(node.node)}</td>
              <td data-label={t("Memory")}>{memory(node.node)}</td>
              <td data-label={t("GPU utilization")}>{gpu(node.node)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
