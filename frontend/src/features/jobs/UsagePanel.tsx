import { Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { metricsQuery } from "@/api/queries";
import type { Job, Metrics } from "@/api/types";
import { PageError } from "@/components/PageError";
import type { Series } from "@/components/UsageChart";
import { translateServerText } from "@/i18n/server";
import { isActive } from "@/lib/states";
import { formatBytes, formatEnergy, formatNumber } from "@/lib/units";
import { cpuEnergyOf, energyOf, formatOf, isExpired, limitOf, newest, type SampleValue, seriesOf, summaryOf, valueSeries } from "./metrics";

const UsageChart = lazy(() => import("@/components/UsageChart"));

/** Refresh interval while the job runs and the page is visible. */
const REFRESH_MS = 5_000;

const cpuText = (value: number) => formatNumber(Math.round(value * 100) / 100);

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
  if (!query.data) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  if (query.data.samples.length === 0) {
    if (isExpired(job.ended_at, new Date())) return <Note>{t("Measurements are kept for 90 days. This job ended earlier.")}</Note>;
    return (
      <>
        <Note>{active ? t("Waiting for the first measurements.") : t("The job ended before the first measurement.")}</Note>
        {job.energy_j !== null && <Energy job={job} samples={[]} />}
      </>
    );
  }
  return <Charts job={job} metrics={query.data} active={active} />;
}

function Note({ children }: { children: string }) {
  return (
    <Text size="sm" c="dimmed">
      {children}
    </Text>
  );
}

interface ChartsProps {
  job: Job;
  metrics: Metrics;
  /** Whether the job runs: then the present values are shown, later what it used altogether. */
  active: boolean;
}

function Charts({ job, metrics, active }: ChartsProps) {
  const { t } = useTranslation();
  const { samples } = metrics;
  const cpu = useMemo(() => seriesOf(samples, (sample) => sample.cpu), [samples]);
  const memory = useMemo(() => seriesOf(samples, (sample) => sample.memory_bytes), [samples]);
  const { resources } = job;
  return (
    <Stack gap="md">
      <Usage title={t("CPUs in use")} label={t("CPUs in use over time")} series={cpu} format={cpuText} limit={resources.cpu} of={cpuText(resources.cpu)} active={active} colour="indigo" by="mean" />
      <Usage title={t("Memory")} label={t("Memory in use over time")} series={memory} format={formatBytes} {...limitOf(resources.memory_bytes, memory, formatBytes)} active={active} colour="moon" by="peak" />
      {metrics.values.map((value) => (
        <ValueUsage key={`${value.source} ${value.name}`} value={value} samples={samples} active={active} />
      ))}
      <Energy job={job} samples={samples} />
    </Stack>
  );
}

/** A value that the platform describes; shares are always drawn, amounts where they are not zero. */
function ValueUsage({ value, samples, active }: { value: SampleValue; samples: Metrics["samples"]; active: boolean }) {
  const { t } = useTranslation();
  const series = useMemo(() => valueSeries(samples, value), [samples, value]);
  const peak = summaryOf(series)?.peak ?? 0;
  const share = value.unit === "ratio";
  if (peak === 0 && !share) return null;
  const title = translateServerText(value.title ?? value.name).text;
  return (
    <Usage title={title} label={t("{{title}} over time", { title })} series={series} format={formatOf(value.unit)} limit={share ? 100 : peak} active={active} colour={value.figure === "peak" ? "moon" : "indigo"} by={value.figure} />
  );
}

/** Energy of the job by source, in total and by node. */
function Energy({ job, samples }: { job: Job; samples: Metrics["samples"] }) {
  const { t } = useTranslation();
  const sources = useMemo(
    () =>
      [
        { energy: energyOf(samples), label: t("GPUs (NVML)") },
        { energy: cpuEnergyOf(samples), label: t("CPUs and memory (RAPL)") },
        { energy: job.energy_j === null ? null : { total: job.energy_j, nodes: [] }, label: t("whole nodes, whichever jobs used them (Slurm)") },
      ].flatMap(({ energy, label }) => (energy === null ? [] : [{ ...energy, label }])),
    [samples, job.energy_j, t],
  );
  return (
    <div style={{ fontSize: 13.5 }} className="tabular" data-testid="energy">
      <strong>{t("Energy")}</strong>
      {sources.length === 0 && <span style={{ color: "var(--mantine-color-dimmed)" }}> {t("not measured")}</span>}
      {sources.map(({ label, total, nodes }) => (
        <div key={label}>
          {formatEnergy(total)} <span style={{ color: "var(--mantine-color-dimmed)" }}>{label}</span>
          {nodes.length > 1 && (
            <Text size="xs" c="dimmed">
              {nodes.map(({ name, joules }) => `${name} ${formatEnergy(joules)}`).join(" · ")}
            </Text>
          )}
        </div>
      ))}
    </div>
  );
}

interface UsageProps {
  title: string;
  label: string;
  series: Series;
  format: (value: number) => string;
  limit: number;
  /** The requested amount, if there is one. */
  of?: string;
  active: boolean;
  colour: "indigo" | "moon";
  /** The figure by which a finished job is judged: what it needed at most, or what it used on average. */
  by: "mean" | "peak";
}

/** One resource: the present value of a running job, mean, peak and efficiency of a finished one, and the chart. */
function Usage({ title, label, series, format, limit, of, active, colour, by }: UsageProps) {
  const { t } = useTranslation();
  const summary = summaryOf(series);
  if (summary === null) return null;
  const mean = t("avg {{mean}}", { mean: format(summary.mean) });
  const peak = t("peak {{most}}", { most: format(summary.peak) });
  const efficiency = of === undefined ? "" : t("{{percent}} % of the request", { percent: Math.round((100 * summary[by]) / limit) });
  const figure = active ? format(summary.last) : by === "mean" ? mean : peak;
  const extra = active ? [mean, peak] : [by === "mean" ? peak : mean, efficiency];
  return (
    <div>
      <div style={{ display: "flex", alignItems: "baseline", flexWrap: "wrap", columnGap: 6, fontSize: 13.5 }} className="tabular">
        <strong>{title}</strong>
        <span>
          {figure} {of !== undefined && <span style={{ color: "var(--mantine-color-dimmed)" }}>{t("of {{total}}", { total: of })}</span>}
        </span>
        <Text span size="xs" c="dimmed" ml="auto">
          {extra.filter(Boolean).join(" · ")}
        </Text>
      </div>
      {series.times.length > 1 && (
        <Suspense fallback={<Skeleton h={132} />}>
          <UsageChart label={label} series={series} limit={limit} format={format} colour={colour} />
        </Suspense>
      )}
      {active && <LatestValues series={series} format={format} />}
    </div>
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
