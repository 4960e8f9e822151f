import { Button, Group, Select, Stack, Text, Title } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Download, FolderOpen, Gauge } from "lucide-react";
import { useState } from "react";
import { ApiProblem, messageOf } from "@/api/problem";
import { limitsQuery, type Project, type ProjectLimits, projectsQuery, type UsageReport, usageQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { UsageBar } from "@/components/Capacity";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import classes from "@/components/table.module.css";
import { lastMonths, limitAmount, type LimitRow, limitRows, usageCsv } from "@/lib/limits";
import { formatNumber, plural } from "@/lib/units";

const MONTHS = 13;

/** Who may use how much, who does, and who did. */
export function ProjectsPage() {
  const query = useQuery(projectsQuery);
  const { data: me } = useSuspenseQuery(meQuery);
  const { name } = useSearch({ from: "/shell/projects" });
  const navigate = useNavigate();
  const projects = query.data?.items;
  const shown =
    projects?.find((each) => each.name === name) ?? projects?.find((each) => each.name === me.user.default_project) ?? projects?.[0];
  return (
    <>
      <PageTitle title="Projects">
        {projects && projects.length > 1 && (
          <Select
            aria-label="Project"
            data={projects.map((each) => each.name)}
            value={shown?.name ?? null}
            onChange={(chosen) => chosen !== null && void navigate({ to: "/projects", search: { name: chosen } })}
            allowDeselect={false}
            searchable={projects.length > 8}
            data-testid="project-choice"
          />
        )}
      </PageTitle>
      {query.isPending && (
        <div className="card">
          <TableSkeleton rows={4} />
        </div>
      )}
      {query.isError && !projects && <PageError error={query.error} onRetry={() => void query.refetch()} />}
      {projects?.length === 0 && (
        <div className="card">
          <EmptyState icon={FolderOpen} title="You are in no project">
            Ask an administrator to make you a member of one.
          </EmptyState>
        </div>
      )}
      {shown && <ProjectView key={shown.name} project={shown} />}
    </>
  );
}

function ProjectView({ project }: { project: Project }) {
  const limits = useQuery(limitsQuery(project.name));
  return (
    <Stack gap="md">
      <section className="card" aria-labelledby="limits-title">
        <Group justify="space-between" px="lg" pt="md" gap="sm">
          <Title order={2} size="h5" id="limits-title">
            {project.title || project.name}
          </Title>
          <Text size="sm" c="dimmed">
            {plural(project.members.length, "member")}
          </Text>
        </Group>
        {limits.isPending && <TableSkeleton rows={3} />}
        {limits.isError && !limits.data && <PageError compact error={limits.error} onRetry={() => void limits.refetch()} />}
        {limits.data && <LimitList limits={limits.data} />}
      </section>
      {limits.data && <MemberTable limits={limits.data} />}
      <UsageCard name={project.name} />
    </Stack>
  );
}

function LimitList({ limits }: { limits: ProjectLimits }) {
  const rows = limitRows(limits);
  if (rows.length === 0) {
    return (
      <EmptyState icon={Gauge} title="No limits">
        This project may use whatever is free.
      </EmptyState>
    );
  }
  return (
    <Stack gap="md" px="lg" py="md" component="ul" m={0} style={{ listStyle: "none" }}>
      {rows.map((row) => (
        <LimitItem key={row.name} row={row} />
      ))}
    </Stack>
  );
}

function LimitItem({ row }: { row: LimitRow }) {
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
          {used === null ? `at most ${most ?? ""}` : most === null ? `${used}, no limit` : `${used} of ${most}`}
        </Text>
      </Group>
      {row.most !== null && row.used !== null && <UsageBar used={row.used} total={row.most} label={`${row.title} in use`} />}
      {by !== "" && (
        <Text size="xs" c="dimmed" mt={4}>
          {by}
        </Text>
      )}
      {row.held !== null && (
        <Text size="xs" c="dimmed" mt={4}>
          Slurm still holds to {limitAmount(row.name, row.held)}; an administrator brings it in line.
        </Text>
      )}
    </li>
  );
}

function MemberTable({ limits }: { limits: ProjectLimits }) {
  const gpus = limits.use.find((each) => each.limit === "max_gpus")?.by ?? {};
  const jobs = limits.use.find((each) => each.limit === "max_jobs")?.by ?? {};
  if (limits.members.length === 0) return null;
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-label="Members">
      <div className={classes.wrap}>
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Member</th>
              <th scope="col">Own limits</th>
              <th scope="col" className={classes.num}>Jobs that run</th>
              <th scope="col" className={classes.num}>GPUs in use</th>
            </tr>
          </thead>
          <tbody>
            {limits.members.map((member) => (
              <tr key={member.user} data-testid="member-row">
                <td>
                  <strong>{member.user}</strong>
                </td>
                <td data-label="Own limits" className={classes.dim}>
                  {limitRows({ ...limits, limits: member.limits, use: [] })
                    .map((row) => `${row.title} ${row.most === null ? "" : limitAmount(row.name, row.most)}`)
                    .join(", ") || "none"}
                </td>
                <td data-label="Jobs that run" className={classes.num}>{jobs[member.user] ?? 0}</td>
                <td data-label="GPUs in use" className={classes.num}>{gpus[member.user] ?? 0}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function UsageCard({ name }: { name: string }) {
  const [months] = useState(() => lastMonths(new Date(), MONTHS));
  const [month, setMonth] = useState(months[0] ?? "");
  const query = useQuery(usageQuery(name, month));
  const kept = !(query.error instanceof ApiProblem && query.error.status === 501);
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="usage-title">
      <Group justify="space-between" px="lg" py="md" gap="sm">
        <Title order={2} size="h5" id="usage-title">
          Usage
        </Title>
        {kept && (
          <Group gap="sm">
            <Select
              aria-label="Month, in UTC"
              size="sm"
              w={130}
              data={months}
              value={month}
              onChange={(chosen) => chosen !== null && setMonth(chosen)}
              allowDeselect={false}
            />
            <Button
              variant="default"
              size="sm"
              leftSection={<Download size={15} />}
              disabled={!query.data?.rows.length}
              onClick={() => query.data && download(name, query.data)}
              data-testid="usage-csv"
            >
              CSV
            </Button>
          </Group>
        )}
      </Group>
      {query.isPending && <TableSkeleton rows={3} />}
      {query.isError && kept && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {query.isError && !kept && (
        <EmptyState icon={Gauge} title="Usage is not kept">
          {messageOf(query.error)}
        </EmptyState>
      )}
      {query.data && <UsageTable report={query.data} />}
    </section>
  );
}

function UsageTable({ report }: { report: UsageReport }) {
  if (report.rows.length === 0) {
    return (
      <EmptyState icon={Gauge} title={`Nothing ran in ${report.month}`}>
        Jobs are counted from their start, each GPU by itself.
      </EmptyState>
    );
  }
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col" className={classes.num}>Jobs</th>
            <th scope="col" className={classes.num}>CPU-hours</th>
            <th scope="col" className={classes.num}>GPU-hours</th>
          </tr>
        </thead>
        <tbody>
          {report.rows.map((row) => (
            <tr key={row.user} data-testid="usage-row">
              <td>
                <strong>{row.user}</strong>
              </td>
              <td data-label="Jobs" className={classes.num}>{formatNumber(row.jobs)}</td>
              <td data-label="CPU-hours" className={classes.num}>{formatNumber(row.cpu_hours)}</td>
              <td data-label="GPU-hours" className={classes.num}>{formatNumber(row.gpu_hours)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function download(project: string, report: UsageReport) {
  const link = document.createElement("a");
  const url = URL.createObjectURL(new Blob([usageCsv(report)], { type: "text/csv" }));
  link.href = url;
  link.download = `usage-${project}-${report.month}.csv`;
  link.click();
  URL.revokeObjectURL(url);
}
