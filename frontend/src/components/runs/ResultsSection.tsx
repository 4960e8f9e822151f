import { Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { resultsQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { formatCell } from "@/lib/sweep";
import classes from "./SnapshotPanel.module.css";

/** Metrics of the job's program; hidden without any. */
export function ResultsSection({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery({ ...resultsQuery(job.id), refetchInterval: job.ended_at === null ? 10_000 : false });
  if (query.data === undefined) return query.isError ? <PageError compact error={query.error} onRetry={() => void query.refetch()} /> : null;
  const results = query.data;
  if (results === null || Object.keys(results.values).length === 0) return null;
  return (
    <section className={classes.section} aria-label={t("Results")} data-testid="results">
      <Title order={2} size="h6">
        {t("Results")}
      </Title>
      <dl className={`${classes.values ?? ""} tabular`}>
        {Object.entries(results.values).map(([name, value]) => (
          <div key={name} className={classes.value}>
            <dt title={name}>{name}</dt>
            <dd>{formatCell(value)}</dd>
            <Spark points={results.series[name] ?? []} />
          </div>
        ))}
      </dl>
      {results.notes.map((note) => (
        <Text key={note} size="xs" c="dimmed">
          <ServerText>{note}</ServerText>
        </Text>
      ))}
    </section>
  );
}

/** A sparkline of a metric. */
function Spark({ points }: { points: readonly (readonly number[])[] }) {
  if (points.length < 2) return null;
  const steps = points.map((point) => point[0] ?? 0);
  const values = points.map((point) => point[1] ?? 0);
  const [left, right, low, high] = [Math.min(...steps), Math.max(...steps), Math.min(...values), Math.max(...values)];
  const path = points
    .map(([step = 0, value = 0]) => {
      const x = right === left ? 50 : (100 * (step - left)) / (right - left);
      const y = high === low ? 13 : 24 - (22 * (value - low)) / (high - low);
      return `${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("L");
  return (
    <svg className={classes.spark} viewBox="0 0 100 26" preserveAspectRatio="none" aria-hidden>
      <path d={`M${path}`} />
    </svg>
  );
}
