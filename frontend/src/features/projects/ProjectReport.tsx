import { Button, Group, Select, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Printer } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ProjectReport, reportQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import type { JobState } from "@/api/types";
import { PageError } from "@/components/PageError";
import { BackLink } from "@/components/PageHead";
import { PageLoading } from "@/components/PageLoading";
import { lookOf } from "@/lib/states";
import { formatMoment } from "@/lib/time";
import { formatEnergy, formatNumber } from "@/lib/units";
import { lastMonths } from "./limits";
import { monthName } from "./projects";
import { UsageBars, YearBars } from "./UsageBars";
import { UsageTable, WaitTable } from "./UsageTables";
import classes from "./ProjectReport.module.css";

const MONTHS = 24;

/** Printable monthly usage report of a project. */
export function ProjectReportPage() {
  const { t } = useTranslation();
  const { name } = useParams({ from: "/shell/projects/$name/report" });
  const search = useSearch({ from: "/shell/projects/$name/report" });
  const navigate = useNavigate({ from: "/projects/$name/report" });
  const [months] = useState(() => lastMonths(new Date(), MONTHS));
  const month = search.month ?? months[0] ?? "";
  const query = useQuery(reportQuery(name, month));
  // The browser proposes the title as the file name when printing.
  useDocumentTitle(`${name} ${month}`);
  const choices = months.includes(month) ? months : [...months, month];
  return (
    <>
      <Group justify="space-between" mb="md" className={classes.tools ?? ""}>
        <BackLink to="/projects/$name" params={{ name }} search={{ tab: "usage" }}>
          {t("Back to project")}
        </BackLink>
        <Group gap="xs">
          <Select
            aria-label={t("Month (UTC)")}
            w={180}
            data={choices.map((each) => ({ value: each, label: monthName(each) }))}
            value={month}
            onChange={(chosen) => chosen !== null && void navigate({ search: { month: chosen }, replace: true })}
            allowDeselect={false}
            data-testid="report-month"
          />
          <Button leftSection={<Printer size={15} />} disabled={!query.data} onClick={() => window.print()} data-testid="report-print">
            {t("Print")}
          </Button>
        </Group>
      </Group>
      {query.isPending && <PageLoading />}
      {query.isError && !query.data && <PageError error={query.error} onRetry={() => query.refetch()} />}
      {query.data && <Report report={query.data} />}
    </>
  );
}

function Report({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const { balance, total } = report;
  const left = balance.gpu_hours.remaining ?? balance.cpu_hours.remaining;
  const outcomes = Object.entries(report.outcomes).sort((a, b) => b[1] - a[1]);
  return (
    <article className={`card ${classes.report ?? ""}`} data-testid="report">
      <div className={classes.top}>
        <div>
          <Text size="sm" c="dimmed">
            {t("Monthly report")}
          </Text>
          <Title order={1} size="h2">
            {report.title || report.project}
          </Title>
          <Text c="dimmed" className="mono" size="sm">
            {report.project}
          </Text>
        </div>
        <div style={{ textAlign: "right" }}>
          <Text fw={650} size="lg">
            {monthName(report.month)}
          </Text>
          <Text size="sm" c="dimmed">
            {me.platform.title}
          </Text>
        </div>
      </div>
      <div className={classes.totals}>
        <Total value={formatNumber(total.gpu_hours)} label={t("GPU-hours")} />
        <Total value={formatNumber(total.cpu_hours)} label={t("CPU-hours")} />
        <Total value={formatNumber(total.jobs)} label={t("jobs run")} />
        <Total
          value={left === null ? "–" : formatNumber(left)}
          label={balance.gpu_hours.remaining !== null ? t("GPU-hours remaining now") : balance.cpu_hours.remaining !== null ? t("CPU-hours remaining now") : t("no budget")}
        />
      </div>
      <Section title={t("Usage by member")}>
        {report.rows.length === 0 ? (
          <Text size="sm" c="dimmed">
            {t("No jobs in {{month}}", { month: monthName(report.month) })}
          </Text>
        ) : (
          <>
            <UsageBars rows={report.rows} />
            <UsageTable report={report} />
          </>
        )}
      </Section>
      <Section title={t("Last 12 months")}>
        <YearBars report={report} />
      </Section>
      {report.waits.length > 0 && (
        <Section title={t("Queue time")}>
          <WaitTable report={report} />
        </Section>
      )}
      {outcomes.length > 0 && (
        <Section title={t("Jobs by final state")}>
          <Text size="sm">
            {outcomes.map(([state, jobs]) => `${lookOf(state as JobState).label} ${formatNumber(jobs)}`).join(" · ")}
          </Text>
        </Section>
      )}
      <div className={classes.foot}>
        {t("Period: {{from}} to {{until}}. Each GPU is counted separately.", {
          from: formatMoment(new Date(report.starts_at)),
          until: formatMoment(new Date(report.as_of)),
        })}{" "}
        {report.source === "scheduler" ? t("Source: scheduler accounting.") : t("Source: job records of the platform.")}{" "}
        <span data-testid="report-energy">
          {total.energy_j === null
            ? t("Energy: not measured.")
            : t("Energy of the nodes of the ended jobs, by Slurm: {{energy}}.", { energy: formatEnergy(total.energy_j) })}
        </span>
      </div>
    </article>
  );
}

function Total({ value, label }: { value: string; label: string }) {
  return (
    <div className={classes.total}>
      <strong className="tabular">{value}</strong>
      <span>{label}</span>
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={classes.section}>
      <Title order={2} size="h5" mb="sm">
        {title}
      </Title>
      {children}
    </section>
  );
}
