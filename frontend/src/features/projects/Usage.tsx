import { Button, Group, Select, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Download, FileText, Gauge } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type ProjectReport, reportQuery, usageCsvPath } from "@/api/projects";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import { lastMonths } from "./limits";
import { monthName } from "./projects";
import { UsageBars, YearBars } from "./UsageBars";
import { UsageTable, WaitTable } from "./UsageTables";
import classes from "./Projects.module.css";

const MONTHS = 24;

export function Usage({ name }: { name: string }) {
  const { t } = useTranslation();
  const [months] = useState(() => lastMonths(new Date(), MONTHS));
  const [month, setMonth] = useState(months[0] ?? "");
  const query = useQuery(reportQuery(name, month));
  return (
    <div className={classes.column}>
      <Group justify="space-between" gap="sm">
        <Select
          aria-label={t("Month (UTC)")}
          w={190}
          data={months.map((value) => ({ value, label: monthName(value) }))}
          value={month}
          onChange={(value) => value !== null && setMonth(value)}
          allowDeselect={false}
          data-testid="usage-month"
        />
        <Group gap="xs">
          <Button component="a" variant="default" href={usageCsvPath(name, month)} download leftSection={<Download size={15} />} data-testid="usage-csv">
            CSV
          </Button>
          <Button
            renderRoot={(props) => <Link {...props} to="/projects/$name/report" params={{ name }} search={{ month }} />}
            leftSection={<FileText size={15} />}
            data-testid="usage-report"
          >
            {t("Printable report")}
          </Button>
        </Group>
      </Group>
      {query.isPending && (
        <div className="card">
          <TableSkeleton rows={5} />
        </div>
      )}
      {query.isError && !query.data && (
        <div className="card">
          <PageError compact error={query.error} onRetry={() => query.refetch()} />
        </div>
      )}
      {query.data && <Month report={query.data} />}
    </div>
  );
}

function Month({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  return (
    <>
      <section className="card" style={{ overflow: "hidden" }} aria-labelledby="usage-title">
        <div className={classes.panelHead}>
          <Title order={2} size="h5" id="usage-title">
            {t("Usage by member")}
          </Title>
        </div>
        {report.rows.length === 0 ? (
          <EmptyState icon={Gauge} title={t("No jobs in {{month}}", { month: monthName(report.month) })}>
            {t("Usage is counted from the start of each job, separately for each GPU.")}
          </EmptyState>
        ) : (
          <>
            <div style={{ padding: "0 20px 16px" }}>
              <UsageBars rows={report.rows} />
            </div>
            <UsageTable report={report} />
          </>
        )}
      </section>
      <div className={classes.grid} style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 540px), 1fr))" }}>
        <section className={`card ${classes.panel ?? ""}`} aria-labelledby="year-title">
          <Title order={2} size="h5" mb="md" id="year-title">
            {t("Last 12 months")}
          </Title>
          <YearBars report={report} />
        </section>
        {report.waits.length > 0 && (
          <section className="card" style={{ overflow: "hidden" }} aria-labelledby="waits-title">
            <div className={classes.panelHead}>
              <Title order={2} size="h5" id="waits-title">
                {t("Queue time")}
              </Title>
            </div>
            <WaitTable report={report} />
          </section>
        )}
      </div>
    </>
  );
}
