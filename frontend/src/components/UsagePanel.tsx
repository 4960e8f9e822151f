import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { metricsQuery } from "@/api/queries";
import type { Job, Metrics } from "@/api/types";
import { PageError } from "@/components/PageError";
import { gpuPercent, seriesOf } from "@/lib/metrics";
import { isActive } from "@/lib/states";
import { formatBytes, formatNumber } from "@/lib/units";

const UsageChart = lazy(() => import("@/components/UsageChart"));

/** Only while the job runs and the page is looked at. */
const REFRESH_MS = 5_000;

const cpuText = (value: number) => formatNumber(Math.round(value * 100) / 100);
const percentText = (value: number) => `${Math.round(value)} %`;

export function UsagePanel({ job }: { job: Job }) {
  const active = isActive(job.state);
  const begun = job.started_at !== null || job.ended_at !== null;
  const query = useQuery({
    ...metricsQuery(job.id),
    enabled: begun || active,
    staleTime: active ? 1_000 : 60_000,
    refetchInterval: active ? REFRESH_MS : false,
  });
  if (!begun && !active) return <Note>Use is measured once the job runs.</Note>;
  if (query.isPending) return <Skeleton h={150} />;
  if (!query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data.samples.length < 2) {
    return <Note>{active ? "The first measurements are on their way." : "It ended before anything was measured."}</Note>;
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
  const { samples, summary } = metrics;
  const cpu = useMemo(() => seriesOf(samples, (sample) => sample.cpu), [samples]);
  const memory = useMemo(() => seriesOf(samples, (sample) => sample.memory_bytes), [samples]);
  const gpu = useMemo(() => seriesOf(samples, gpuPercent), [samples]);
  const { resources } = job;
  const last = samples.at(-1);
  return (
    <Stack gap="md">
      <Chart
        title="CPUs in use"
        now={last ? cpuText(last.cpu) : ""}
        of={`of ${resources.cpu}`}
        extra={summary.cpu_mean === null ? "" : `mean ${cpuText(summary.cpu_mean)}, most ${cpuText(summary.cpu_max ?? 0)}`}
      >
        <UsageChart label="CPUs in use over time" series={cpu} limit={resources.cpu} format={cpuText} colour="indigo" />
      </Chart>
      <Chart
        title="Memory"
        now={last ? formatBytes(last.memory_bytes) : ""}
        of={`of ${formatBytes(resources.memory_bytes)}`}
        extra={summary.memory_max_bytes === null ? "" : `most ${formatBytes(summary.memory_max_bytes)}`}
      >
        <UsageChart
          label="Memory in use over time"
          series={memory}
          limit={resources.memory_bytes}
          format={formatBytes}
          colour="moon"
        />
      </Chart>
      {samples.some((sample) => gpuPercent(sample) !== null) && (
        <Chart title="GPUs busy" now={last ? percentText(gpuPercent(last) ?? 0) : ""} of="" extra="">
          <UsageChart label="GPU use over time" series={gpu} limit={100} format={percentText} colour="indigo" />
        </Chart>
      )}
    </Stack>
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
