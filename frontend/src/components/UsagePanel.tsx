import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { metricsQuery } from "@/api/queries";
import type { Job, Metrics } from "@/api/types";
import { PageError } from "@/components/PageError";
import { gpuPercent, gpuSeries, isExpired, memoryOf, newest, type Series, seriesOf, utilizationOf } from "@/lib/metrics";
import { isActive } from "@/lib/states";
import { formatBytes, formatNumber } from "@/lib/units";

const UsageChart = lazy(() => import("@/components/UsageChart"));

/** Refresh interval while the job runs and the page is visible. */
const REFRESH_MS = 5_000;

const cpuText = (value: number) => formatNumber(Math.round(value * 100) / 100);
const percentText = (value: number) => `${Math.round(value)} %`;

export function UsagePanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const active = isActive(job.state);
  const hasStarted = job.started_at !== null || job.ended_at !== null;
  const query = useQuery({
    ...metricsQuery(job.id),
    enabled: hasStarted || active,
    staleTime: active ? 1_000 : 60_000,
    refetchInterval: active ? REFRESH_MS : false,
  });
  if (!hasStarted && !active) return <Note>{t("Resource usage appears when the job is running.")}</Note>;
  if (query.isPending) return <Skeleton h={150} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data.samples.length < 2) {
    if (isExpired(job.ended_at, new Date())) return <Note>{t("Measurements are kept for 90 days. This job ended earlier.")}</Note>;
    return <Note>{active ? t("Waiting for the first measurements.") : t("The job ended before the first measurement.")}</Note>;
  }
  return <Charts job={job} metrics={query.data} />;
}

function Note({ children }: { children: string }) {
  return (
    <Text size="sm" c="dimmed">
      {children}
    </Text>
  );
}

function Charts({ job, metrics }: { job: Job; metrics: Metrics }) {
  const { t } = useTranslation();
  const { samples, summary } = metrics;
  const cpu = useMemo(() => seriesOf(samples, (sample) => sample.cpu), [samples]);
  const memory = useMemo(() => seriesOf(samples, (sample) => sample.memory_bytes), [samples]);
  const gpu = useMemo(() => gpuSeries(samples, utilizationOf), [samples]);
  const gpuMemory = useMemo(() => gpuSeries(samples, memoryOf), [samples]);
  const peakGpuMemory = Math.max(0, ...gpuMemory.lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const { resources } = job;
  const last = samples.at(-1);
  return (
    <Stack gap="md">
      <Chart
        title={t("CPUs in use")}
        now={last ? cpuText(last.cpu) : ""}
        of={t("of {{total}}", { total: resources.cpu })}
        extra={summary.cpu_mean === null ? "" : t("avg {{mean}}, peak {{most}}", { mean: cpuText(summary.cpu_mean), most: cpuText(summary.cpu_max ?? 0) })}
      >
        <UsageChart label={t("CPUs in use over time")} series={cpu} limit={resources.cpu} format={cpuText} colour="indigo" />
        <LatestValues series={cpu} format={cpuText} />
      </Chart>
      <Chart
        title={t("Memory")}
        now={last ? formatBytes(last.memory_bytes) : ""}
        of={t("of {{total}}", { total: formatBytes(resources.memory_bytes) })}
        extra={summary.memory_max_bytes === null ? "" : t("peak {{most}}", { most: formatBytes(summary.memory_max_bytes) })}
      >
        <UsageChart
          label={t("Memory in use over time")}
          series={memory}
          limit={resources.memory_bytes}
          format={formatBytes}
          colour="moon"
        />
        <LatestValues series={memory} format={formatBytes} />
      </Chart>
      {samples.some((sample) => gpuPercent(sample) !== null) && (
        <Chart title={t("GPU utilization")} now={last ? percentText(gpuPercent(last) ?? 0) : ""} of="" extra="">
          <UsageChart label={t("GPU utilization over time")} series={gpu} limit={100} format={percentText} colour="indigo" />
          <LatestValues series={gpu} format={percentText} />
        </Chart>
      )}
      {peakGpuMemory > 0 && (
        <Chart title={t("GPU memory")} now="" of="" extra={t("peak {{most}}", { most: formatBytes(peakGpuMemory) })}>
          <UsageChart label={t("GPU memory over time")} series={gpuMemory} limit={peakGpuMemory} format={formatBytes} colour="moon" />
          <LatestValues series={gpuMemory} format={formatBytes} />
        </Chart>
      )}
    </Stack>
  );
}

/** The latest value of each node or GPU, where there are several. */
function LatestValues({ series, format }: { series: Series; format: (value: number) => string }) {
  const values = newest(series);
  if (values.length < 2) return null;
  return (
    <Text size="xs" c="dimmed" className="tabular" component="ul" m={0} pl={0} style={{ listStyle: "none", columns: 2, columnGap: 16 }}>
      {values.map(({ name, value }) => (
        <li key={name} style={{ display: "flex", justifyContent: "space-between", gap: 8 }}>
          <span className="truncate">{name}</span>
          <span>{format(value)}</span>
        </li>
      ))}
    </Text>
  );
}

interface ChartProps {
  title: string;
  now: string;
  of: string;
  extra: string;
  children: React.ReactNode;
}

function Chart({ title, now, of, extra, children }: ChartProps) {
  return (
    <div>
      <div style={{ display: "flex", alignItems: "baseline", gap: 6, fontSize: 13.5 }} className="tabular">
        <strong>{title}</strong>
        <span>
          {now} <span style={{ color: "var(--mantine-color-dimmed)" }}>{of}</span>
        </span>
        <Text span size="xs" c="dimmed" ml="auto">
          {extra}
        </Text>
      </div>
      <Suspense fallback={<Skeleton h={132} />}>{children}</Suspense>
    </div>
  );
}
