import { Button, Group, Select, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Printer } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ProjectReport, reportQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { BackLink } from "@/components/PageHead";
import { PageLoading } from "@/components/PageLoading";
import { UsageBars, YearBars } from "@/components/projects/UsageBars";
import { UsageTable, WaitTable } from "@/components/projects/UsageTables";
import { lastMonths } from "@/lib/limits";
import { monthName } from "@/lib/projects";
import type { JobState } from "@/api/types";
import { lookOf } from "@/lib/states";
import { formatMoment } from "@/lib/time";
import { formatNumber } from "@/lib/units";
import classes from "./ProjectReport.module.css";

const MONTHS = 24;

/** A project's month as a sheet to print. */
export function ProjectReportPage() {
  const { t } = useTranslation();
  const { name } = useParams({ from: "/shell/projects/$name/report" });
  const search = useSearch({ from: "/shell/projects/$name/report" });
  const navigate = useNavigate({ from: "/projects/$name/report" });
  const [months] = useState(() => lastMonths(new Date(), MONTHS));
  const month = search.month ?? months[0] ?? "";
  const query = useQuery(reportQuery(name, month));
  // What the browser proposes as the file's name.
  useDocumentTitle(`${name} ${month}`);
  const choices = months.includes(month) ? months : [...months, month];
  return (
    <>
      <Group justify="space-between" mb="md" className={classes.tools ?? ""}>
        <BackLink to="/projects/$name" params={{ name }} search={{ tab: "usage" }}>
          {t("Back to the project")}
        </BackLink>
        <Group gap="xs">
          <Select
            aria-label={t("Month, in UTC")}
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
      {query.isError && !query.data && <PageError error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Sheet report={query.data} />}
    </>
  );
}

function Sheet({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const { balance, total } = report;
  const left = balance.gpu_hours.left ?? balance.cpu_hours.left;
  const outcomes = Object.entries(report.outcomes).sort((a, b) => b[1] - a[1]);
  return (
    <article className={`card ${classes.sheet ?? ""}`} data-testid="report">
      <div className={classes.top}>
        <div>
          <Text size="sm" c="dimmed">
            {t("Report of the month")}
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
      <div className={classes.sums}>
        <Sum value={formatNumber(total.gpu_hours)} what={t("GPU-hours")} />
        <Sum value={formatNumber(total.cpu_hours)} what={t("CPU-hours")} />
        <Sum value={formatNumber(total.jobs)} what={t("jobs that ran")} />
        <Sum
          value={left === null ? "–" : formatNumber(left)}
          what={balance.gpu_hours.left !== null ? t("GPU-hours left now") : balance.cpu_hours.left !== null ? t("CPU-hours left now") : t("no budget")}
        />
      </div>
      <Part title={t("Usage by member")}>
        {report.rows.length === 0 ? (
          <Text size="sm" c="dimmed">
            {t("Nothing ran in {{month}}", { month: monthName(report.month) })}
          </Text>
        ) : (
          <>
            <UsageBars rows={report.rows} />
            <UsageTable report={report} />
          </>
        )}
      </Part>
      <Part title={t("The year up to then")}>
        <YearBars report={report} />
      </Part>
      {report.waits.length > 0 && (
        <Part title={t("How long jobs waited")}>
          <WaitTable report={report} />
        </Part>
      )}
      {outcomes.length > 0 && (
        <Part title={t("How jobs ended")}>
          <Text size="sm">
            {outcomes.map(([state, jobs]) => `${lookOf(state as JobState).label} ${formatNumber(jobs)}`).join(" · ")}
          </Text>
        </Part>
      )}
      <div className={classes.foot}>
        {t("Counted from {{from}} to {{until}}; each GPU counts by itself.", {
          from: formatMoment(new Date(report.starts_at)),
          until: formatMoment(new Date(report.as_of)),
        })}{" "}
        {report.source === "scheduler" ? t("By the scheduler's accounting.") : t("By the platform's own record of its jobs.")}
      </div>
    </article>
  );
}

function Sum({ value, what }: { value: string; what: string }) {
  return (
    <div className={classes.sum}>
      <strong className="tabular">{value}</strong>
      <span>{what}</span>
    </div>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={classes.part}>
      <Title order={2} size="h5" mb="sm">
        {title}
      </Title>
      {children}
    </section>
  );
}
