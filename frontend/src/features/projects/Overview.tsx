import { Group, Stack, Text, Title } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Gauge, Hourglass } from "lucide-react";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { limitsQuery, type Project, type ProjectLimits, type WaitingJob, waitingQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { UsageBar } from "@/components/Capacity";
import { DataTable } from "@/components/DataTable";
import { DetailRow } from "@/components/DetailRow";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import type { Column } from "@/components/table";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import { BalanceView } from "./BalanceView";
import { limitAmount, type LimitRow, limitRows } from "./limits";
import { dayOf } from "./projects";
import tableClasses from "@/components/table.module.css";
import { nameOfJob } from "@/lib/describe";
import classes from "./Projects.module.css";

export function Overview({ project }: { project: Project }) {
  const { t } = useTranslation();
  return (
    <div className={classes.grid}>
      <div className={classes.column}>
        <PendingJobs name={project.name} />
        <LimitUsage name={project.name} />
      </div>
      <aside className={classes.column}>
        <section className={`card ${classes.panel ?? ""}`} aria-labelledby="balance-title">
          <Title order={2} size="h5" mb="md" id="balance-title">
            {t("Balance")}
          </Title>
          <BalanceView name={project.name} />
        </section>
        <About project={project} />
      </aside>
    </div>
  );
}

function About({ project }: { project: Project }) {
  const { t } = useTranslation();
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="about-title">
      <Title order={2} size="h5" mb="sm" id="about-title">
        {t("About")}
      </Title>
      <dl className={classes.facts}>
        {project.description !== "" && <DetailRow name={t("Description")}>{project.description}</DetailRow>}
        <DetailRow name={t("Managers")}>{project.managers.join(", ") || t("none")}</DetailRow>
        <DetailRow name={t("Members")}>{project.members.length}</DetailRow>
        <DetailRow name={t("End date")}>{project.expires_at === null ? t("no end date") : dayOf(project.expires_at)}</DetailRow>
        <DetailRow name={t("Created")}>
          <RelativeTime at={project.created_at} />
        </DetailRow>
      </dl>
    </section>
  );
}

function PendingJobs({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(waitingQuery(name));
  const columns: Column<WaitingJob>[] = [
    {
      header: t("Job"),
      className: tableClasses.name,
      cell: (job) => (
        <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={classes.link}>
          {nameOfJob(job)}
        </Link>
      ),
    },
    { header: t("Owner"), cell: (job) => job.owner },
    { header: t("Resources"), cell: (job) => <ServerText>{job.resources}</ServerText> },
    { header: t("Pending since"), nowrap: true, cell: (job) => <RelativeTime at={job.pending_since} /> },
    {
      header: t("Reason"),
      label: null,
      cell: (job) => (
        <>
          {job.reason === null ? t("not available yet") : <ServerText>{job.reason}</ServerText>}
          {job.expected_start_at !== null && (
            <Text size="xs" c="dimmed">
              {t("Estimated start:")} <RelativeTime at={job.expected_start_at} />
            </Text>
          )}
        </>
      ),
    },
  ];
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="waiting-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="waiting-title">
          {t("Pending jobs")}
        </Title>
        {query.data && query.data.total > 0 && (
          <Text size="sm" c="dimmed">
            {t("{{count}} pending jobs", { count: query.data.total })}
          </Text>
        )}
      </div>
      <DataTable
        columns={columns}
        query={query}
        rows={query.data?.items}
        rowKey={(job) => job.id}
        rowTestId="waiting-row"
        empty={
          <EmptyState icon={Hourglass} title={t("No pending jobs")}>
            {t("Pending jobs of this project appear here with the reason.")}
          </EmptyState>
        }
      />
    </section>
  );
}

function LimitUsage({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(limitsQuery(name));
  return (
    <section className="card" aria-labelledby="in-use-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="in-use-title">
          {t("Limits and usage")}
        </Title>
      </div>
      {query.isPending && <TableSkeleton rows={3} />}
      {query.isError && !query.data && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {query.data && <LimitList limits={query.data.value} />}
    </section>
  );
}

function LimitList({ limits }: { limits: ProjectLimits }) {
  const { t } = useTranslation();
  const rows = limitRows(limits);
  if (rows.length === 0) {
    return (
      <EmptyState icon={Gauge} title={t("No limits")}>
        {t("This project can use all available resources.")}
      </EmptyState>
    );
  }
  return (
    <Stack gap="md" px="lg" pb="lg" component="ul" m={0} style={{ listStyle: "none" }}>
      {rows.map((row) => (
        <LimitItem key={row.name} row={row} />
      ))}
    </Stack>
  );
}

function LimitItem({ row }: { row: LimitRow }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const by = row.by.map(([user, used]) => `${user} ${limitAmount(row.name, used)}`).join(", ");
  const limit = row.most === null ? null : limitAmount(row.name, row.most);
  const used = row.used === null ? null : limitAmount(row.name, row.used);
  return (
    <li data-testid="limit">
      <Group justify="space-between" gap="sm" mb={4}>
        <Text size="sm" fw={600}>
          {row.title}
        </Text>
        <Text size="sm" c="dimmed" className="tabular">
          {used === null
            ? t("max. {{most}}", { most: limit ?? "" })
            : limit === null
              ? t("{{used}} in use, no limit", { used })
              : t("{{used}} of {{most}}", { used, most: limit })}
        </Text>
      </Group>
      {row.most !== null && row.used !== null && <UsageBar used={row.used} total={row.most} label={t("{{title}} in use", { title: row.title })} />}
      {by !== "" && (
        <Text size="xs" c="dimmed" mt={4}>
          {by}
        </Text>
      )}
      {row.held !== null && me.platform.limits_applied === "after_sync" && (
        <Text size="xs" c="dimmed" mt={4}>
          {t("Slurm applies {{amount}} until the next sync.", { amount: limitAmount(row.name, row.held) })}
        </Text>
      )}
    </li>
  );
}
