import { Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Gauge, Hourglass } from "lucide-react";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { limitsQuery, type Project, type ProjectLimits, type WaitingJob, waitingQuery } from "@/api/projects";
import { UsageBar } from "@/components/Capacity";
import { DetailRow } from "@/components/DetailRow";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { BalanceView } from "@/components/projects/BalanceView";
import { Said } from "@/components/Said";
import { RelativeTime } from "@/components/Time";
import { TableSkeleton } from "@/components/TableSkeleton";
import tableClasses from "@/components/table.module.css";
import { limitAmount, type LimitRow, limitRows } from "@/lib/limits";
import { dayOf } from "@/lib/projects";
import classes from "./Projects.module.css";

export function Overview({ project }: { project: Project }) {
  const { t } = useTranslation();
  return (
    <div className={classes.grid}>
      <div className={classes.column}>
        <Waiting name={project.name} />
        <InUse name={project.name} />
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
        {project.description !== "" && <DetailRow name={t("What it is about")}>{project.description}</DetailRow>}
        <DetailRow name={t("Managers")}>{project.managers.join(", ") || t("none")}</DetailRow>
        <DetailRow name={t("Members")}>{project.members.length}</DetailRow>
        <DetailRow name={t("Ends on")}>{project.expires_at === null ? t("no end") : dayOf(project.expires_at)}</DetailRow>
        <DetailRow name={t("Made")}>
          <RelativeTime at={project.created_at} />
        </DetailRow>
      </dl>
    </section>
  );
}

function Waiting({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(waitingQuery(name));
  const jobs = query.data?.items;
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="waiting-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="waiting-title">
          {t("Who waits and why")}
        </Title>
        {query.data && query.data.total > 0 && (
          <Text size="sm" c="dimmed">
            {t("{{count}} jobs wait", { count: query.data.total })}
          </Text>
        )}
      </div>
      {query.isPending && <TableSkeleton rows={3} />}
      {query.isError && !jobs && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {jobs?.length === 0 && (
        <EmptyState icon={Hourglass} title={t("Nothing waits")}>
          {t("Jobs of this project that wait for nodes are listed here, with the reason.")}
        </EmptyState>
      )}
      {jobs && jobs.length > 0 && (
        <div className={tableClasses.wrap}>
          <table className={tableClasses.table}>
            <thead>
              <tr>
                <th scope="col">{t("Job")}</th>
                <th scope="col">{t("Owner")}</th>
                <th scope="col">{t("Asks for")}</th>
                <th scope="col">{t("Waits since")}</th>
                <th scope="col">{t("Why")}</th>
              </tr>
            </thead>
            <tbody>
              {jobs.map((job) => (
                <WaitingRow key={job.id} job={job} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function WaitingRow({ job }: { job: WaitingJob }) {
  const { t } = useTranslation();
  return (
    <tr data-testid="waiting-row">
      <td className={tableClasses.name}>
        <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={classes.link}>
          {job.name}
        </Link>
      </td>
      <td data-label={t("Owner")}>{job.owner}</td>
      <td data-label={t("Asks for")}>
        <Said>{job.asks_for}</Said>
      </td>
      <td data-label={t("Waits since")} className={tableClasses.nowrap}>
        <RelativeTime at={job.waits_since} />
      </td>
      <td>
        {job.reason === null ? t("not known yet") : <Said>{job.reason}</Said>}
        {job.expected_start_at !== null && (
          <Text size="xs" c="dimmed">
            {t("May start")} <RelativeTime at={job.expected_start_at} />
          </Text>
        )}
      </td>
    </tr>
  );
}

function InUse({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(limitsQuery(name));
  return (
    <section className="card" aria-labelledby="in-use-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="in-use-title">
          {t("Limits and what is in use")}
        </Title>
      </div>
      {query.isPending && <TableSkeleton rows={3} />}
      {query.isError && !query.data && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
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
        {t("This project may use whatever is free.")}
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
  const by = row.by.map(([user, used]) => `${user} ${limitAmount(row.name, used)}`).join(", ");
  const most = row.most === null ? null : limitAmount(row.name, row.most);
  const used = row.used === null ? null : limitAmount(row.name, row.used);
  return (
    <li data-testid="limit">
      <Group justify="space-between" gap="sm" mb={4}>
        <Text size="sm" fw={600}>
          {row.title}
        </Text>
        <Text size="sm" c="dimmed" className="tabular">
          {used === null
            ? t("at most {{most}}", { most: most ?? "" })
            : most === null
              ? t("{{used}}, no limit", { used })
              : t("{{used}} of {{most}}", { used, most })}
        </Text>
      </Group>
      {row.most !== null && row.used !== null && <UsageBar used={row.used} total={row.most} label={t("{{title}} in use", { title: row.title })} />}
      {by !== "" && (
        <Text size="xs" c="dimmed" mt={4}>
          {by}
        </Text>
      )}
      {row.held !== null && (
        <Text size="xs" c="dimmed" mt={4}>
          {t("Slurm still holds to {{amount}}; an administrator brings it in line.", { amount: limitAmount(row.name, row.held) })}
        </Text>
      )}
    </li>
  );
}
