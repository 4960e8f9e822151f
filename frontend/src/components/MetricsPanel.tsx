import { Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ChartLine } from "lucide-react";
import { lazy, Suspense, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { resultsQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { curvesOf, linesOf } from "@/lib/metric-lines";
import { valuesOf } from "@/lib/sweep";
import classes from "./MetricsPanel.module.css";
import { TabSkeleton } from "./TabSkeleton";

const MetricChart = lazy(() => import("@/components/MetricChart"));

/** The metrics that the job's program recorded: the last values, and their courses. */
export function MetricsPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery({ ...resultsQuery(job.id), refetchInterval: job.ended_at === null ? 10_000 : false });
  if (query.isPending) return <TabSkeleton h={320} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const results = query.data;
  const values = results === null ? [] : Object.entries(valuesOf(results));
  if (results === null || values.length === 0) {
    return (
      <EmptyState icon={ChartLine} title={t("No metrics")}>
        {t("Metrics appear here when the program writes metrics.json, metrics.jsonl or TensorBoard event files to $AITNE_METRICS.")}
      </EmptyState>
    );
  }
  return (
    <div className={classes.panel} data-testid="metrics">
      <dl className={`${classes.values ?? ""} tabular`}>
        {values.map(([name, value]) => (
          <div key={name} className={classes.value}>
            <dt title={name}>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <MetricCurves runs={[{ name: job.name, results }]} />
      {results.notes.map((note) => (
        <Text key={note} size="xs" c="dimmed">
          <ServerText>{note}</ServerText>
        </Text>
      ))}
    </div>
  );
}

type Runs = Parameters<typeof linesOf>[1];

/** A chart for each metric, with a line for each run. */
export function MetricCurves({ runs }: { runs: Runs }) {
  const metrics = useMemo(() => curvesOf(runs.map((run) => run.results)), [runs]);
  if (metrics.length === 0) return null;
  return (
    <div className={classes.curves}>
      {metrics.map((metric) => (
        <MetricCurve key={metric} metric={metric} runs={runs} />
      ))}
    </div>
  );
}

function MetricCurve({ metric, runs }: { metric: string; runs: Runs }) {
  const { t } = useTranslation();
  const lines = useMemo(() => linesOf(metric, runs), [metric, runs]);
  return (
    <Suspense fallback={<Skeleton h={280} />}>
      <MetricChart metric={metric} axis={t("Step")} lines={lines} />
    </Suspense>
  );
}
