import { Anchor, Badge, Button, CloseButton, Group, Skeleton, Switch, Text, Textarea, Title } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeftRight, Equal, GitCompareArrows } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { compareQuery, resultsQuery } from "@/api/runs";
import { EmptyState } from "@/components/EmptyState";
import { MetricCurves } from "@/components/MetricsPanel";
import { PageError } from "@/components/PageError";
import { BackLink } from "@/components/PageHead";
import { PageTitle } from "@/components/PageTitle";
import { ServerText } from "@/components/ServerText";
import { RelativeTime } from "@/components/Time";
import { isJobId, MOST_RUNS, readRuns } from "@/lib/compared-runs";
import { nameOfJob } from "@/lib/describe";
import { curvesOf } from "@/lib/metric-lines";
import { lookOf } from "@/lib/states";
import { letterOf, mergeComparisons, nameOf, type Row, type Run, type RunComparison, type Section, shownSections, textOf, titleOf } from "./comparison";
import { Diff } from "./Diff";
import classes from "./Compare.module.css";

/** Comparison of two jobs or more. */
export function ComparePage() {
  const { t } = useTranslation();
  const { runs = "" } = useSearch({ from: "/shell/compare" });
  const ids = readRuns(runs);
  const [first, second, ...others] = ids;
  return (
    <>
      <BackLink to="/jobs">{t("Jobs")}</BackLink>
      <PageTitle title={t("Compare jobs")} />
      {first !== undefined && second !== undefined && ids.every(isJobId) ? <ComparisonLoader first={first} others={[second, ...others]} /> : <JobPicker ids={ids} />}
    </>
  );
}

function JobPicker({ ids }: { ids: readonly string[] }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/compare" });
  const [text, setText] = useState(ids.join(" "));
  const chosen = readRuns(text);
  const wrong = chosen.filter((id) => !isJobId(id));
  return (
    <section className="card">
      <EmptyState icon={GitCompareArrows} title={t("Select jobs")}>
        {t("Select 2 to {{most}} rows in the jobs table, or enter job IDs.", { most: MOST_RUNS })}
      </EmptyState>
      <form
        className={classes.choose}
        style={{ margin: "0 auto" }}
        onSubmit={(event) => {
          event.preventDefault();
          void navigate({ search: { runs: chosen.join(",") } });
        }}
      >
        <Textarea label={t("Job IDs")} description={t("Separated by spaces or commas")} value={text} onChange={(event) => setText(event.currentTarget.value)} error={wrong.length > 0 && t("Not the full ID of a job: {{ids}}", { ids: wrong.join(", ") })} autosize minRows={2} classNames={{ input: "mono" }} />
        <Button type="submit" disabled={chosen.length < 2 || wrong.length > 0}>
          {t("Compare")}
        </Button>
      </form>
    </section>
  );
}

function ComparisonLoader({ first, others }: { first: string; others: readonly string[] }) {
  const queries = useQueries({ queries: others.map((id) => compareQuery(first, id)) });
  const failed = queries.find((query) => query.isError);
  const [one, ...more] = queries.flatMap((query) => (query.data === undefined ? [] : [query.data]));
  if (failed !== undefined) return <PageError error={failed.error} onRetry={() => failed.refetch()} />;
  if (one === undefined || more.length + 1 < others.length) return <Skeleton h={420} radius="md" />;
  return <ComparisonTable comparison={mergeComparisons([one, ...more])} />;
}

function ComparisonTable({ comparison }: { comparison: RunComparison }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/compare" });
  const [onlyDifferences, setOnlyDifferences] = useState(true);
  const { runs, differences } = comparison;
  const sections = shownSections(comparison, onlyDifferences);
  const show = (shown: readonly Run[]) => void navigate({ search: { runs: shown.map((run) => run.id).join(",") }, replace: true });
  const labels = runs.map((run, index) => `${letterOf(index)} · ${nameOfJob(run)}`);
  const diffs = new Set(runs.map((run) => run.diff ?? "")).size > 1;
  const many = runs.length > 2;
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Text size="sm" c="dimmed" data-testid="compare-count">
          {t("{{count}} differences", { count: differences })}
        </Text>
        <Group gap="md">
          <Switch size="sm" label={t("Only differences")} checked={onlyDifferences} onChange={(event) => setOnlyDifferences(event.currentTarget.checked)} data-testid="compare-only" />
          {!many && (
            <Button variant="default" size="xs" leftSection={<ArrowLeftRight size={14} />} onClick={() => show([...runs].reverse())}>
              {t("Swap")}
            </Button>
          )}
        </Group>
      </Group>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <section className={`card ${classes.wrap ?? ""}`} tabIndex={many ? 0 : undefined} aria-label={t("Job comparison")}>
        <table className={`${classes.table ?? ""} ${many ? (classes.many ?? "") : ""} tabular`} style={many ? { minWidth: 200 + 170 * runs.length } : undefined} aria-label={t("Job comparison")} data-testid="compare">
          <thead>
            <tr className={classes.head}>
              <th scope="col" className={classes.field}>
                <span className="visually-hidden">{t("Field")}</span>
              </th>
              {runs.map((run, index) => (
                <JobHead key={run.id} run={run} letter={letterOf(index)} onRemove={many ? () => show(runs.filter((each) => each !== run)) : undefined} />
              ))}
            </tr>
          </thead>
          {sections.map((section) => (
            <Rows key={section.key} section={section} labels={labels} />
          ))}
        </table>
        {sections.length === 0 && (
          <EmptyState icon={Equal} title={t("No differences")}>
            {t("All recorded fields are equal.")}
          </EmptyState>
        )}
      </section>
      <ComparedMetrics runs={runs} labels={labels} />
      {diffs && (
        <div className={classes.diffs}>
          {runs.map((run, index) => (
            <section key={run.id} style={{ minWidth: 0 }}>
              <Title order={2} size="h6" mb={6}>
                {t("Uncommitted changes of {{name}}", { name: labels[index] ?? run.name })}
              </Title>
              {run.diff ? (
                <Diff text={run.diff} label={t("Uncommitted changes of {{name}}", { name: labels[index] ?? run.name })} />
              ) : (
                <Text size="sm" c="dimmed">
                  {t("None")}
                </Text>
              )}
            </section>
          ))}
        </div>
      )}
    </>
  );
}

/** The metrics of all runs in one chart for each. */
function ComparedMetrics({ runs, labels }: { runs: readonly Run[]; labels: readonly string[] }) {
  const { t } = useTranslation();
  const results = useQueries({ queries: runs.map((run) => resultsQuery(run.id)) });
  const found = results.map((query, index) => ({ name: labels[index] ?? "", results: query.data }));
  if (curvesOf(found.map((run) => run.results)).length === 0) return null;
  return (
    <section className={`card ${classes.metrics ?? ""}`} aria-labelledby="metrics-title" data-testid="compare-metrics">
      <Title order={2} size="h5" mb="sm" id="metrics-title">
        {t("Metrics")}
      </Title>
      <MetricCurves runs={found} />
    </section>
  );
}

function JobHead({ run, letter, onRemove }: { run: Run; letter: string; onRemove: (() => void) | undefined }) {
  const { t } = useTranslation();
  return (
    <th scope="col">
      <div className={classes.run}>
        <span className={classes.letter}>{letter}</span>
        <Anchor component={Link} to={`/jobs/${run.id}`} size="sm" fw={650}>
          {nameOfJob(run)}
        </Anchor>
        {onRemove !== undefined && <CloseButton size="sm" aria-label={t("Remove {{name}}", { name: `${letter} · ${nameOfJob(run)}` })} onClick={onRemove} />}
      </div>
      <Text size="xs" c="dimmed" component="div">
        {run.owner} · {t(lookOf(run.state).label)} · <RelativeTime at={run.created_at} />
      </Text>
    </th>
  );
}

function Rows({ section, labels }: { section: Section; labels: readonly string[] }) {
  const { t } = useTranslation();
  return (
    <tbody>
      <tr className={classes.section}>
        <th colSpan={labels.length + 1} scope="colgroup">
          {titleOf(section)}
          {section.equal_omitted > 0 && (
            <Badge variant="light" color="gray" tt="none" ml={8}>
              {t("{{count}} equal", { count: section.equal_omitted })}
            </Badge>
          )}
          {section.notes.map((note) => (
            <Text key={note.runs} span size="xs" c="dimmed" ml={8} fw={400}>
              {labels.length > 2 && `${note.runs}: `}
              <ServerText>{note.text}</ServerText>
            </Text>
          ))}
        </th>
      </tr>
      {section.rows.map((row) => (
        <tr key={row.field}>
          <th scope="row">{nameOf(section, row)}</th>
          {labels.map((label, index) => (
            <Cell key={label} section={section} row={row} index={index} label={label} />
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function Cell({ section, row, index, label }: { section: Section; row: Row; index: number; label: string }) {
  const value = row.values[index] ?? null;
  const text = textOf(section, row, value);
  return (
    <td className={`${classes.value ?? ""} ${row.different[index] === true ? (classes.other ?? "") : ""}`} data-label={label}>
      {text ?? <span className={classes.none}>–</span>}
    </td>
  );
}
