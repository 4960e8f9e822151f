import { Alert, SegmentedControl, Select, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { ChartLine, TriangleAlert } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { type RankMetrics, rankMetricsQuery } from "@/api/ranks";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { TabSkeleton } from "@/components/TabSkeleton";
import { ToneBadge } from "@/components/ToneBadge";
import { isActive } from "@/lib/states";
import { formatClock } from "@/lib/time";
import { figuresOf, formatQuantity, linePath, MOST_CHARTS, quantitiesOf, type Quantity, type Row, rowsOf, spanOf, stragglersOf } from "./rank-metrics";
import { RankHeatMap } from "./RankHeatMap";
import { RankTable } from "./RankTable";
import classes from "./RankMetricsPanel.module.css";

const REFRESH_MS = 10_000;

/** Resource usage of a job by node and rank, during and after the run. */
export function RankMetricsPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery({ ...rankMetricsQuery(job.id), refetchInterval: isActive(job.state) ? REFRESH_MS : false });
  if (query.isPending) return <TabSkeleton h={260} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const quantities = quantitiesOf(query.data);
  if (quantities.length === 0) {
    return (
      <EmptyState icon={ChartLine} title={job.ended_at === null ? t("No data yet") : t("No data recorded")}>
        {job.ended_at === null ? t("The usage of each node and rank appears some seconds after the start.") : t("The job ended before the first measurement.")}
      </EmptyState>
    );
  }
  return <Measured metrics={query.data} quantities={quantities} />;
}

function Measured({ metrics, quantities }: { metrics: RankMetrics; quantities: readonly Quantity[] }) {
  const { t } = useTranslation();
  const narrow = useMediaQuery("(max-width: 640px)");
  const [chosen, setChosen] = useState<Quantity>();
  const [unfolded, setUnfolded] = useState(false);
  const quantity = chosen !== undefined && quantities.includes(chosen) ? chosen : (quantities[0] ?? "cpu");
  const rows = useMemo(() => rowsOf(metrics, quantity), [metrics, quantity]);
  const span = useMemo(() => spanOf(rows), [rows]);
  const stragglers = stragglersOf(metrics);
  const labels: Record<Quantity, string> = {
    gpu: t("GPU by rank"),
    "gpu-memory": t("GPU memory by rank"),
    "node-gpu": t("GPUs by node"),
    cpu: t("CPUs by node"),
    memory: t("Memory by node"),
  };
  const choices = { "aria-label": t("Quantity"), size: "xs" as const, value: quantity, data: quantities.map((value) => ({ value, label: labels[value] })) };
  const now = new Date();
  return (
    <div className={classes.panel} data-testid="rank-metrics">
      {stragglers.length > 0 && (
        <Alert color="orange" icon={<TriangleAlert size={18} />} title={t("Stragglers")}>
          <ul className={classes.stragglers}>
            {stragglers.slice(0, MOST_NAMED).map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
          {stragglers.length > MOST_NAMED && t("and {{count}} more", { count: stragglers.length - MOST_NAMED })}
        </Alert>
      )}
      <div className={classes.head}>
        {narrow ? <Select {...choices} allowDeselect={false} onChange={(next) => setChosen(next ?? undefined)} /> : <SegmentedControl {...choices} onChange={setChosen} />}
        {span !== null && (
          <Text size="xs" c="dimmed" className="tabular">
            {formatClock(new Date(span.from), now)} – {formatClock(new Date(span.to), now)}
          </Text>
        )}
      </div>
      {span !== null && (rows.length > MOST_CHARTS ? <RankHeatMap rows={rows} span={span} label={labels[quantity]} quantity={quantity} /> : <Charts rows={rows} span={span} quantity={quantity} />)}
      <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)}>
        <summary>{t("Values as a table")}</summary>
        {unfolded && <RankTable metrics={metrics} />}
      </details>
    </div>
  );
}

/** Stragglers that are named one by one. */
const MOST_NAMED = 4;
const WIDTH = 160;
const HEIGHT = 40;

/** A small chart for each row, all on the same axes. */
function Charts({ rows, span, quantity }: { rows: readonly Row[]; span: { from: number; to: number }; quantity: Quantity }) {
  const { t } = useTranslation();
  return (
    <ul className={classes.charts}>
      {rows.map((row) => {
        const figures = figuresOf(row);
        const format = (value: number) => formatQuantity(quantity, value);
        return (
          <li key={row.key} className={classes.chart} data-straggler={row.straggler || undefined}>
            <div className={`${classes.label ?? ""} tabular`}>
              <strong className="truncate">{row.name}</strong>
              {row.node !== null && <span className={`${classes.dim ?? ""} truncate`}>{row.node}</span>}
              <span className={classes.last}>{figures === null ? "–" : format(figures.last)}</span>
            </div>
            <svg
              viewBox={`0 -2 ${WIDTH} ${HEIGHT + 3}`}
              preserveAspectRatio="none"
              className={classes.line}
              role="img"
              aria-label={figures === null ? t("not measured") : [t("avg {{mean}}", { mean: format(figures.mean) }), t("peak {{most}}", { most: format(figures.peak) })].join(", ")}
            >
              <path d={linePath(row, span, WIDTH, HEIGHT)} />
            </svg>
            {row.straggler && <ToneBadge tone="warn">{t("Straggler")}</ToneBadge>}
          </li>
        );
      })}
    </ul>
  );
}
