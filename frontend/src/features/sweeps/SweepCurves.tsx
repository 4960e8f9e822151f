import { Text, Title } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { resultsQuery, type Results, type Sweep } from "@/api/runs";
import { MetricCurves } from "@/components/MetricsPanel";
import { isTerminal } from "@/lib/states";
import { firstOrder, sorted } from "@/lib/sweep";
import classes from "./SweepPanel.module.css";

/** Number of tasks whose curves are drawn: more lines cannot be told apart. */
const MOST_TASKS = 8;

/** The metrics of the best tasks of a sweep, overlaid. */
export function SweepCurves({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation();
  const scored = useMemo(() => sorted(sweep.tasks, firstOrder(sweep)).filter((task) => Object.keys(task.values).length > 0), [sweep]);
  const tasks = scored.slice(0, MOST_TASKS);
  const results = useQueries({
    queries: tasks.map((task) => ({ ...resultsQuery(task.job_id), refetchInterval: isTerminal(task.state) ? (false as const) : 10_000 })),
    combine: (queries) => queries.map((query) => query.data),
  });
  const runs = tasks.map((task, index) => ({ name: t("task {{number}}", { number: task.task }), results: results[index] }));
  if (!runs.some((run) => hasCurve(run.results))) return null;
  return (
    <section className={classes.curves} aria-label={t("Metrics")} data-testid="sweep-curves">
      <Title order={2} size="h6" mb="xs">
        {t("Metrics")}
      </Title>
      {scored.length > MOST_TASKS && (
        <Text size="xs" c="dimmed" mb="xs">
          {t("The {{count}} best of {{total}} tasks with metrics", { count: MOST_TASKS, total: scored.length })}
        </Text>
      )}
      <MetricCurves runs={runs} />
    </section>
  );
}

function hasCurve(results: Results | null | undefined): boolean {
  return Object.values(results?.series ?? {}).some((points) => points.length > 1);
}
