import { Anchor, Badge, Button, Group, Skeleton, Switch, Text, TextInput, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowLeftRight, Equal, GitCompareArrows } from "lucide-react";
import type { TFunction } from "i18next";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Comparison, compareQuery, resultsQuery } from "@/api/runs";
import { EmptyState } from "@/components/EmptyState";
import { MetricCurves } from "@/components/MetricsPanel";
import { PageError } from "@/components/PageError";
import { BackLink } from "@/components/PageHead";
import { PageTitle } from "@/components/PageTitle";
import { ServerText } from "@/components/ServerText";
import { RelativeTime } from "@/components/Time";
import { curvesOf } from "@/lib/metric-lines";
import { lookOf } from "@/lib/states";
import { nameOf, type Row, type Section, shownSections, textOf, titleOf } from "./comparison";
import { Diff } from "./Diff";
import classes from "./Compare.module.css";

/** Comparison of two jobs. */
export function ComparePage() {
  const { t } = useTranslation();
  const { a, b } = useSearch({ from: "/shell/compare" });
  return (
    <>
      <BackLink to="/jobs">{t("Jobs")}</BackLink>
      <PageTitle title={t("Compare jobs")} />
      {a !== undefined && b !== undefined ? <ComparisonLoader a={a} b={b} /> : <JobPicker a={a} b={b} />}
    </>
  );
}

function JobPicker({ a, b }: { a: string | undefined; b: string | undefined }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/compare" });
  const [first, setFirst] = useState(a ?? "");
  const [second, setSecond] = useState(b ?? "");
  return (
    <section className="card">
      <EmptyState icon={GitCompareArrows} title={t("Select two jobs")}>
        {t("Select two rows in the jobs table, or enter two job IDs.")}
      </EmptyState>
      <form
        className={classes.choose}
        style={{ margin: "0 auto" }}
        onSubmit={(event) => {
          event.preventDefault();
          void navigate({ search: { a: first.trim(), b: second.trim() } });
        }}
      >
        <TextInput label={t("First job")} value={first} onChange={(event) => setFirst(event.currentTarget.value)} classNames={{ input: "mono" }} />
        <TextInput label={t("Second job")} value={second} onChange={(event) => setSecond(event.currentTarget.value)} classNames={{ input: "mono" }} />
        <Button type="submit" disabled={first.trim() === "" || second.trim() === ""}>
          {t("Compare")}
        </Button>
      </form>
    </section>
  );
}

function ComparisonLoader({ a, b }: { a: string; b: string }) {
  const query = useQuery(compareQuery(a, b));
  if (query.isPending) return <Skeleton h={420} radius="md" />;
  if (query.data === undefined) return <PageError error={query.error} onRetry={() => void query.refetch()} />;
  return <ComparisonTable comparison={query.data} />;
}

function ComparisonTable({ comparison }: { comparison: Comparison }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/compare" });
  const [onlyDifferences, setOnlyDifferences] = useState(true);
  const { a, b, differences } = comparison;
  const sections = shownSections(comparison, onlyDifferences);
  const diffs = [a, b].some((run) => (run.diff ?? "") !== "") && a.diff !== b.diff;
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Text size="sm" c="dimmed" data-testid="compare-count">
          {t("{{count}} differences", { count: differences })}
        </Text>
        <Group gap="md">
          <Switch size="sm" label={t("Only differences")} checked={onlyDifferences} onChange={(event) => setOnlyDifferences(event.currentTarget.checked)} data-testid="compare-only" />
          <Button variant="default" size="xs" leftSection={<ArrowLeftRight size={14} />} onClick={() => void navigate({ search: { a: b.id, b: a.id }, replace: true })}>
            {t("Swap")}
          </Button>
        </Group>
      </Group>
      <section className={`card ${classes.wrap ?? ""}`}>
        <table className={`${classes.table ?? ""} tabular`} aria-label={t("Job comparison")} data-testid="compare">
          <thead>
            <tr className={classes.head}>
              <th scope="col" style={{ width: "26%" }}>
                <span className="visually-hidden">{t("Field")}</span>
              </th>
              <JobHead run={a} />
              <JobHead run={b} />
            </tr>
          </thead>
          {sections.map((section) => (
            <Rows key={section.key} section={section} />
          ))}
        </table>
        {sections.length === 0 && (
          <EmptyState icon={Equal} title={t("No differences")}>
            {t("All recorded fields are equal.")}
          </EmptyState>
        )}
      </section>
      <ComparedMetrics a={a} b={b} />
      {diffs && (
        <div className={classes.diffs}>
          {[a, b].map((run, index) => (
            <section key={index} style={{ minWidth: 0 }}>
              <Title order={2} size="h6" mb={6}>
                {t("Uncommitted changes of {{name}}", { name: run.name })}
              </Title>
              {run.diff ? (
                <Diff text={run.diff} label={t("Uncommitted changes of {{name}}", { name: run.name })} />
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

/** The metrics of both runs in one chart for each. */
function ComparedMetrics({ a, b }: Pick<Comparison, "a" | "b">) {
  const { t } = useTranslation();
  const first = useQuery(resultsQuery(a.id)).data;
  const second = useQuery(resultsQuery(b.id)).data;
  const runs = [
    { name: `A · ${labelOf(a, t)}`, results: first },
    { name: `B · ${labelOf(b, t)}`, results: second },
  ];
  if (curvesOf([first, second]).length === 0) return null;
  return (
    <section className={`card ${classes.metrics ?? ""}`} aria-labelledby="metrics-title" data-testid="compare-metrics">
      <Title order={2} size="h5" mb="sm" id="metrics-title">
        {t("Metrics")}
      </Title>
      <MetricCurves runs={runs} />
    </section>
  );
}

function labelOf(run: Comparison["a"], t: TFunction): string {
  return run.array_task_id === null ? run.name : `${run.name} · ${t("task {{task}}", { task: run.array_task_id })}`;
}

function JobHead({ run }: { run: Comparison["a"] }) {
  const { t } = useTranslation();
  return (
    <th scope="col">
      <Anchor component={Link} to={`/jobs/${run.id}`} size="sm" fw={650}>
        {labelOf(run, t)}
      </Anchor>
      <Text size="xs" c="dimmed" component="div">
        {run.owner} · {lookOf(run.state).label} · <RelativeTime at={run.created_at} />
      </Text>
    </th>
  );
}

function Rows({ section }: { section: Section }) {
  const { t } = useTranslation();
  return (
    <tbody>
      <tr className={classes.section}>
        <th colSpan={3} scope="colgroup">
          {titleOf(section)}
          {section.equal_omitted > 0 && (
            <Badge variant="light" color="gray" tt="none" ml={8}>
              {t("{{count}} equal", { count: section.equal_omitted })}
            </Badge>
          )}
          {section.note !== null && (
            <Text span size="xs" c="dimmed" ml={8} fw={400}>
              <ServerText>{section.note}</ServerText>
            </Text>
          )}
        </th>
      </tr>
      {section.rows.map((row) => (
        <tr key={row.field} className={row.equal ? undefined : classes.different}>
          <th scope="row">{nameOf(section, row)}</th>
          <Value row={row} side="a" />
          <Value row={row} side="b" />
        </tr>
      ))}
    </tbody>
  );
}

function Value({ row, side }: { row: Row; side: "a" | "b" }) {
  const text = textOf(row[side], row.unit);
  return <td className={classes.value}>{text ?? <span className={classes.none}>–</span>}</td>;
}
