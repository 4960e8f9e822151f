import { SegmentedControl, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChartLine } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { loadHistoryQuery } from "@/api/queries";
import type { LoadHistory, LoadPeriod } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { DAY, formatClock, HOUR } from "@/lib/time";
import { formatBytes, formatNumber } from "@/lib/units";
import { type LoadValue, loadRows, loadSeries, meanShare, peakOf } from "./load";
import table from "@/components/table.module.css";
import classes from "./LoadPanel.module.css";

const UsageChart = lazy(() => import("@/components/UsageChart"));

const amountText = (value: number) => formatNumber(Math.round(value * 10) / 10);

/** The cluster's load over the last day or week. */
export function LoadPanel() {
  const { t } = useTranslation();
  const [period, setPeriod] = useState<LoadPeriod>("day");
  const query = useQuery(loadHistoryQuery(period));
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="load-title" data-testid="load">
      <div className={classes.head}>
        <h2 id="load-title">{t("Load over time")}</h2>
        <SegmentedControl
          size="xs"
          aria-label={t("Period")}
          value={period}
          onChange={setPeriod}
          data={[
            { value: "day", label: t("24 hours") },
            { value: "week", label: t("7 days") },
          ]}
        />
      </div>
      {query.isPending ? (
        <Skeleton h={320} />
      ) : query.data === undefined ? (
        <PageError compact error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length < 2 ? (
        <EmptyState icon={ChartLine} title={t("No history yet")}>
          {t("The platform samples the load of the cluster every minute. Charts appear after some minutes.")}
        </EmptyState>
      ) : (
        <Loads history={query.data} period={period} />
      )}
    </section>
  );
}

function Loads({ history, period }: { history: LoadHistory; period: LoadPeriod }) {
  const { t } = useTranslation();
  const hasGpus = peakOf(history, "gpu_total") > 0;
  return (
    <>
      <div className={classes.charts}>
        <LoadChart history={history} title={t("CPUs allocated")} used="cpu_used" total="cpu_total" format={amountText} colour="indigo" />
        <LoadChart history={history} title={t("Memory allocated")} used="memory_used_bytes" total="memory_total_bytes" format={formatBytes} colour="moon" />
        {hasGpus && <LoadChart history={history} title={t("GPUs allocated")} used="gpu_used" total="gpu_total" format={amountText} colour="indigo" />}
        <LoadChart history={history} title={t("Pending jobs and array tasks")} used="waiting_jobs" format={amountText} colour="moon" />
      </div>
      <details className={classes.values}>
        <summary>{t("Values as a table")}</summary>
        <LoadTable history={history} seconds={period === "day" ? HOUR : DAY / 4} hasGpus={hasGpus} />
      </details>
    </>
  );
}

/** The middle of the axis is a whole number too. */
function evenAbove(peak: number): number {
  return Math.max(2, 2 * Math.ceil(peak / 2));
}

interface ChartProps {
  history: LoadHistory;
  title: string;
  used: LoadValue;
  total?: LoadValue;
  format: (value: number) => string;
  colour: "indigo" | "moon";
}

function LoadChart({ history, title, used, total, format, colour }: ChartProps) {
  const { t } = useTranslation();
  const series = useMemo(() => loadSeries(history, used), [history, used]);
  const latest = history.items.at(-1);
  const share = total === undefined ? null : meanShare(history, used, total);
  const peak = t("peak {{most}}", { most: format(peakOf(history, used)) });
  return (
    <div>
      <div className={`${classes.label ?? ""} tabular`}>
        <strong>{title}</strong>
        {latest !== undefined && (
          <span>
            {format(latest[used])} {total !== undefined && <span className={table.dim}>{t("of {{total}}", { total: format(latest[total]) })}</span>}
          </span>
        )}
        <Text span size="xs" c="dimmed" ml="auto">
          {share === null ? peak : t("avg {{mean}}", { mean: `${share} %` })}
        </Text>
      </div>
      <Suspense fallback={<Skeleton h={132} />}>
        <UsageChart label={title} series={series} limit={total === undefined ? evenAbove(peakOf(history, used)) : peakOf(history, total)} format={format} colour={colour} gaps />
      </Suspense>
    </div>
  );
}

function LoadTable({ history, seconds, hasGpus }: { history: LoadHistory; seconds: number; hasGpus: boolean }) {
  const { t } = useTranslation();
  const now = new Date();
  const of = (used: string, total: string) => t("{{used}} of {{total}}", { used, total });
  return (
    <div className={table.wrap}>
      <table className={`${table.table ?? ""} tabular`}>
        <caption className="visually-hidden">{t("Means of the cluster's load, newest first")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("From")}</th>
            <th scope="col">{t("CPUs")}</th>
            <th scope="col">{t("Memory")}</th>
            {hasGpus && <th scope="col">{t("GPUs")}</th>}
            <th scope="col">{t("Pending jobs and array tasks")}</th>
          </tr>
        </thead>
        <tbody>
          {loadRows(history, seconds).map((row) => (
            <tr key={row.time}>
              <td>{formatClock(new Date(row.time), now)}</td>
              <td data-label={t("CPUs")}>{of(amountText(row.cpu_used), amountText(row.cpu_total))}</td>
              <td data-label={t("Memory")}>{of(formatBytes(row.memory_used_bytes), formatBytes(row.memory_total_bytes))}</td>
              {hasGpus && <td data-label={t("GPUs")}>{of(amountText(row.gpu_used), amountText(row.gpu_total))}</td>}
              <td data-label={t("Pending jobs and array tasks")}>{amountText(row.waiting_jobs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
