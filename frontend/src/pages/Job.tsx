import { Anchor, Button, Group, Tabs, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, History, Layers, RotateCcw, ScrollText, Square, SquareTerminal } from "lucide-react";
import { useState } from "react";
import { jobQuery, templatesQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ArrayTasks } from "@/components/ArrayTasks";
import { EndingAlert } from "@/components/EndingAlert";
import { JobDetails } from "@/components/JobDetails";
import { JobHistory } from "@/components/JobHistory";
import { JobTableHead } from "@/components/JobRow";
import { JobScript } from "@/components/JobScript";
import { LogView } from "@/components/LogView";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { QueueLine } from "@/components/QueueLine";
import { SchedulerRecord } from "@/components/SchedulerRecord";
import { ExtendMenu, OpenButton, StopConfirm } from "@/components/SessionCard";
import { Stages } from "@/components/Stages";
import { StateBadge } from "@/components/StateBadge";
import { TemplateIcon } from "@/components/TemplateIcon";
import { UsagePanel } from "@/components/UsagePanel";
import tableClasses from "@/components/table.module.css";
import { useJobActions } from "@/hooks/use-job-actions";
import { describeExit, describeNodes, describeResources } from "@/lib/describe";
import type { JobTab } from "@/router";
import classes from "./Job.module.css";

export function JobPage() {
  const { jobId } = useParams({ from: "/shell/jobs/$jobId" });
  const query = useQuery(jobQuery(jobId));
  useDocumentTitle(query.data ? `${query.data.name} · Aitne` : "Job · Aitne");
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError error={query.error} onRetry={() => void query.refetch()} />;
  return <LoadedJob key={jobId} job={query.data} />;
}

function LoadedJob({ job }: { job: Job }) {
  const isArray = job.array !== null && job.array_task_id === null;
  const { tab } = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const first: JobTab = isArray ? "tasks" : "log";
  const shown = tab === undefined || (tab === "log" && isArray) || (tab === "tasks" && !isArray) ? first : tab;
  return (
    <>
      <Head job={job} />
      <EndingAlert job={job} />
      <section className={`card ${classes.panel ?? ""}`} aria-label="Progress">
        <Stages job={job} />
        <QueueLine job={job} mt="sm" />
      </section>
      <div className={classes.grid}>
        <section className="card" style={{ minWidth: 0 }}>
          <Tabs
            value={shown}
            onChange={(next) =>
              void navigate({ search: next === first || next === null ? {} : { tab: next as JobTab }, replace: true })
            }
            keepMounted={false}
          >
            <Tabs.List pt={6} px={8}>
              {isArray ? (
                <Tabs.Tab value="tasks" leftSection={<Layers size={15} />}>
                  Tasks
                </Tabs.Tab>
              ) : (
                <Tabs.Tab value="log" leftSection={<ScrollText size={15} />}>
                  Log
                </Tabs.Tab>
              )}
              <Tabs.Tab value="script" leftSection={<SquareTerminal size={15} />}>
                Script
              </Tabs.Tab>
              <Tabs.Tab value="history" leftSection={<History size={15} />}>
                History
              </Tabs.Tab>
            </Tabs.List>
            {isArray ? (
              <Tabs.Panel value="tasks">
                <table className={tableClasses.table}>
                  <JobTableHead owner={false} />
                  <tbody>
                    <ArrayTasks id={job.id} owner={false} />
                  </tbody>
                </table>
              </Tabs.Panel>
            ) : (
              <Tabs.Panel value="log">
                <LogView job={job} />
              </Tabs.Panel>
            )}
            <Tabs.Panel value="script">
              <JobScript job={job} />
            </Tabs.Panel>
            <Tabs.Panel value="history">
              <JobHistory job={job} />
            </Tabs.Panel>
          </Tabs>
        </section>
        <aside className={classes.aside}>
          {!isArray && (
            <section className={`card ${classes.panel ?? ""}`} aria-labelledby="usage-title">
              <Title order={2} size="h5" mb="sm" id="usage-title">
                Use
              </Title>
              <UsagePanel job={job} />
            </section>
          )}
          <section className={`card ${classes.panel ?? ""}`} aria-labelledby="details-title">
            <Title order={2} size="h5" mb="sm" id="details-title">
              Details
            </Title>
            <JobDetails job={job} />
            <SchedulerRecord job={job} />
          </section>
        </aside>
      </div>
    </>
  );
}

function Head({ job }: { job: Job }) {
  const { data: templates } = useQuery(templatesQuery);
  const template = templates?.items.find((entry) => entry.name === job.template);
  const exit = describeExit(job);
  return (
    <>
      <Group gap={4} mb={10}>
        <Anchor component={Link} to="/jobs" size="sm" c="dimmed">
          <ArrowLeft size={14} style={{ verticalAlign: "-2px" }} aria-hidden /> Jobs
        </Anchor>
        {job.array_job_id !== null && (
          <Anchor component={Link} to={`/jobs/${job.array_job_id}`} size="sm" c="dimmed">
            / array job
          </Anchor>
        )}
      </Group>
      <div className={classes.head}>
        <TemplateIcon name={template?.icon} session={job.type === "session"} size={48} />
        <div className={classes.title}>
          <div className={classes.name}>
            <Title order={1} size="h3">
              {job.name}
              {job.array_task_id !== null && ` · task ${job.array_task_id}`}
            </Title>
            <StateBadge job={job} large testId="job-state" />
          </div>
          <div className={classes.sub}>
            {[
              template?.title ?? job.template ?? (job.type === "session" ? "Session" : "Job"),
              job.owner,
              describeResources(job.resources),
              job.nodes.length > 0 ? `on ${describeNodes(job.nodes)}` : "",
              exit,
            ]
              .filter(Boolean)
              .join(" · ")}
          </div>
        </div>
        <Actions job={job} />
      </div>
    </>
  );
}

function Actions({ job }: { job: Job }) {
  const { stop, again } = useJobActions(job);
  const [asking, setAsking] = useState(false);
  const session = job.type === "session";
  const can = new Set(job.actions);
  return (
    <div className={classes.actions}>
      {can.has("open") && <OpenButton job={job} size="sm" />}
      {session && can.has("extend") && <ExtendMenu job={job} size="sm" />}
      {can.has("resubmit") && (
        <Button
          variant="default"
          size="sm"
          leftSection={<RotateCcw size={15} />}
          loading={again.isPending}
          onClick={() => again.mutate()}
          data-testid="job-resubmit"
        >
          {session ? "Launch again" : "Run again"}
        </Button>
      )}
      {(can.has("cancel") || can.has("stop")) && (
        <Button
          variant="outline"
          color="red"
          size="sm"
          leftSection={<Square size={14} />}
          disabled={job.cancel_requested}
          onClick={() => setAsking(true)}
          data-testid={session ? "session-stop" : "job-cancel"}
        >
          {session ? "Stop" : "Cancel"}
        </Button>
      )}
      <StopConfirm job={job} opened={asking} stop={stop} onClose={() => setAsking(false)} />
    </div>
  );
}
