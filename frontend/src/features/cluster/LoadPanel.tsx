import { SegmentedControl, Select, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { ChartLine } from "lucide-react";
import { lazy, type ReactNode, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { loadHistoryQuery } from "@/api/cluster";
import { partitionsQuery } from "@/api/queries";
import type { LoadHistory, LoadPeriod } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import type { Column } from "@/components/table";
import type { JobFilters } from "@/lib/job-filters";
import { minuteOf } from "@/lib/job-views";
import { DAY, formatClock, HOUR } from "@/lib/time";
import { formatBytes, formatNumber, withUnit } from "@/lib/units";
import { type LoadValue, loadRows, loadSeries, meanShare, peakOf } from "./load";
import table from "@/components/table.module.css";
import classes from "./LoadPanel.module.css";

const UsageChart = lazy(() => import("@/components/UsageChart"));

const amountText = (value: number) => formatNumber(Math.round(value * 10) / 10);

/** Pages that list the jobs behind a chart: those that the user may see, or all. */
export type JobsPage = "/jobs" | "/admin/jobs";

/** Period of the charts. */
export function PeriodControl({ period, onChange }: { period: LoadPeriod; onChange: (period: LoadPeriod) => void }) {
  const { t } = useTranslation();
  return (
    <SegmentedControl
      size="xs"
      aria-label={t("Period")}
      value={period}
      onChange={onChange}
      data={[
        { value: "day", label: t("24 hours") },
        { value: "week", label: t("7 days") },
        { value: "month", label: t("30 days") },
      ]}
    />
  );
}

/** Partition of the charts; none: the whole cluster. Hidden if there is no choice. */
export function PartitionSelect({ partition, onChange }: { partition: string | undefined; onChange: (partition: string | undefined) => void }) {
  const { t } = useTranslation();
  const partitions = useQuery(partitionsQuery).data?.items ?? [];
  if (partitions.length < 2 && partition === undefined) return null;
  return (
    <Select
      size="xs"
      aria-label={t("Partition")}
      placeholder={t("All partitions")}
      data={partitions.map(({ name }) => name)}
      value={partition ?? null}
      onChange={(name) => onChange(name ?? undefined)}
      clearable
      searchable
      w={170}
      data-testid="load-partition"
    />
  );
}

/** The cluster's load over the last day, week or month. */
export function LoadPanel() {
  const { t } = useTranslation();
  const [period, setPeriod] = useState<LoadPeriod>("day");
  const [partition, setPartition] = useState<string>();
  return (
    <LoadSection period={period} partition={partition} jobs="/jobs" title={t("Load over time")}>
      <PartitionSelect partition={partition} onChange={setPartition} />
      <PeriodControl period={period} onChange={setPeriod} />
    </LoadSection>
  );
}

interface SectionProps {
  period: LoadPeriod;
  partition: string | undefined;
  jobs: JobsPage;
  title: string;
  /** Controls beside the title. */
  children?: ReactNode;
}

/** Charts of the load of the cluster or a partition, in all states of their query. */
export function LoadSection({ period, partition, jobs, title, children }: SectionProps) {
  const { t } = useTranslation();
  const query = useQuery(loadHistoryQuery(period, partition));
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="load-title" data-testid="load">
      <div className={classes.head}>
        <h2 id="load-title">{title}</h2>
        {children !== undefined && <div className={classes.controls}>{children}</div>}
      </div>
      {query.isPending ? (
        <Skeleton h={320} />
      ) : query.data === undefined ? (
        <PageError compact error={query.error} onRetry={() => query.refetch()} />
      ) : query.data.items.length < 2 ? (
        <EmptyState icon={ChartLine} title={t("No history yet")}>
          {t("The platform samples the load of the cluster every minute. Charts appear after some minutes.")}
        </EmptyState>
      ) : (
        <Loads history={query.data} period={period} partition={partition} jobs={jobs} />
      )}
    </section>
  );
}

/** Length of the intervals in the table of values, in seconds. */
const TABLE_STEP: Record<LoadPeriod, number> = { day: HOUR, week: DAY / 4, month: DAY };

function Loads({ history, period, partition, jobs }: { history: LoadHistory; period: LoadPeriod; partition: string | undefined; jobs: JobsPage }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const hasGpus = peakOf(history, "gpu_total") > 0;
  const ofPartition = partition === undefined ? {} : { partition };
  const pick = (seconds: number) => void navigate({ to: jobs, search: { ...ofPartition, all: true, at: minuteOf(seconds + history.interval_s / 2) } });
  const shared = { history, onPick: pick };
  return (
    <>
      <div className={classes.charts}>
        <LoadChart {...shared} title={t("CPUs allocated")} used="cpu_used" total="cpu_total" format={amountText} colour="indigo" />
        <LoadChart {...shared} title={t("Memory allocated")} used="memory_used_bytes" total="memory_total_bytes" format={formatBytes} colour="moon" />
        {hasGpus && <LoadChart {...shared} title={t("GPUs allocated")} used="gpu_used" total="gpu_total" format={amountText} colour="indigo" />}
        <LoadChart history={history} title={t("Pending jobs and array tasks")} used="waiting_jobs" format={amountText} colour="moon" />
      </div>
      <p className={classes.hint}>
        {t("Select a point of a chart to list the jobs of that time.")}{" "}
        <Link to={jobs} search={{ ...ofPartition, all: true, state: "running" }}>
          {t("Running jobs")}
        </Link>{" "}
        ·{" "}
        <Link to={jobs} search={{ ...ofPartition, all: true, state: "waiting" }}>
          {t("Pending jobs")}
        </Link>
      </p>
      <details className={classes.values}>
        <summary>{t("Values as a table")}</summary>
        <LoadTable history={history} seconds={TABLE_STEP[period]} hasGpus={hasGpus} jobs={jobs} search={ofPartition} />
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
  /** Receives the time, in Unix seconds, of the point that was selected. */
  onPick?: (seconds: number) => void;
}

function LoadChart({ history, title, used, total, format, colour, onPick }: ChartProps) {
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
            {total === undefined ? t("avg {{mean}}", { mean: format(latest[used]) }) : format(latest[used])}{" "}
            {total !== undefined && <span className={table.dim}>{t("of {{total}}", { total: format(latest[total]) })}</span>}
          </span>
        )}
        <Text span size="xs" c="dimmed" ml="auto">
          {share === null ? peak : t("avg {{mean}}", { mean: withUnit(share, "%") })}
        </Text>
      </div>
      <Suspense fallback={<Skeleton h={132} />}>
        <UsageChart label={title} series={series} limit={total === undefined ? evenAbove(peakOf(history, used)) : peakOf(history, total)} format={format} colour={colour} gaps {...(onPick && { onPick })} />
      </Suspense>
    </div>
  );
}

interface TableProps {
  history: LoadHistory;
  seconds: number;
  hasGpus: boolean;
  jobs: JobsPage;
  search: JobFilters;
}

function LoadTable({ history, seconds, hasGpus, jobs, search }: TableProps) {
  const { t } = useTranslation();
  const now = new Date();
  const of = (used: string, total: string) => t("{{used}} of {{total}}", { used, total });
  const rows = loadRows(history, seconds);
  const columns: Column<(typeof rows)[number]>[] = [
    {
      header: t("From"),
      cell: ({ time }) => (
        <Link to={jobs} search={{ ...search, all: true, at: minuteOf(Date.parse(time) / 1000 + seconds / 2) }} className={table.plainLink}>
          {formatClock(new Date(time), now)}
        </Link>
      ),
    },
    { header: t("CPUs"), cell: (row) => of(amountText(row.cpu_used), amountText(row.cpu_total)) },
    { header: t("Memory"), cell: (row) => of(formatBytes(row.memory_used_bytes), formatBytes(row.memory_total_bytes)) },
  ];
  if (hasGpus) columns.push({ header: t("GPUs"), cell: (row) => of(amountText(row.gpu_used), amountText(row.gpu_total)) });
  columns.push({ header: t("Pending jobs and array tasks"), cell: (row) => amountText(row.waiting_jobs) });
  return <DataTable caption={t("Means of the cluster's load, newest first")} columns={columns} rows={rows} rowKey={({ time }) => time} />;
}
