import { Alert, Anchor, Button, Tabs, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Camera, ChartLine, ChartSpline, Cpu, History, Layers, Network, NotebookText, Pause, Play, RadioTower, ScrollText, Square, SquareTerminal } from "lucide-react";
import { lazy, Suspense, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobQuery, templatesQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { ComposeLink } from "@/components/ComposeLink";
import { MetricsPanel } from "@/components/MetricsPanel";
import { TaskLog } from "@/features/jobs/log/TaskLog";
import { DeleteButton } from "@/features/jobs/table/DeleteButton";
import { NodeLinks } from "@/components/NodeLinks";
import { PageError } from "@/components/PageError";
import { BackLink, PageHead } from "@/components/PageHead";
import { PageLoading } from "@/components/PageLoading";
import { QueuePosition } from "@/components/QueuePosition";
import { ServerText } from "@/components/ServerText";
import { Stages } from "@/components/Stages";
import { StateBadge } from "@/components/StateBadge";
import { TableSkeleton } from "@/components/TableSkeleton";
import { TemplateIcon } from "@/components/TemplateIcon";
import { LogView } from "@/features/jobs/log/LogView";
import { RerunButton } from "@/features/jobs/runs/RerunButton";
import { SnapshotPanel } from "@/features/jobs/runs/SnapshotPanel";
import { TaskTable } from "@/features/jobs/table/TaskRows";
import { TerminalButton } from "@/features/jobs/terminal/TerminalButton";
import { ContinueButton } from "@/features/sessions/ContinueButton";
import { EndingAlert } from "@/features/sessions/EndingAlert";
import { IdleAlert } from "@/features/sessions/IdleAlert";
import { ExtendMenu, MoreEntryPoints, OpenButton, SessionRanks } from "@/features/sessions/SessionCard";
import { SweepPanel } from "@/features/sweeps/SweepPanel";
import { useJobActions } from "@/hooks/use-job-actions";
import { useSelectedInView } from "@/hooks/use-selected-in-view";
import { describeExit, describeResources, nameOfJob } from "@/lib/describe";
import { isFailure } from "@/lib/states";
import { CommunicationPanel } from "./CommunicationPanel";
import { EndConfirm } from "./EndConfirm";
import { FailureDetail } from "./FailureDetail";
import { GpuIdleHint } from "./GpuIdle";
import { JobDetails } from "./JobDetails";
import { JobHistory } from "./JobHistory";
import { JobScript } from "./JobScript";
import type { JobTab } from "./job-tabs";
import { NotebookPanel } from "./NotebookPanel";
import { OutsideBadge } from "./OutsideBadge";
import { SchedulerRecord } from "./SchedulerRecord";
import { UsagePanel } from "./UsagePanel";
import classes from "@/components/Job.module.css";
import { TabSkeleton } from "@/components/TabSkeleton";

const PlacementTab = lazy(() => import("./PlacementTab"));
const RanksTab = lazy(() => import("./RanksTab"));

export function JobPage() {
  const { jobId } = useParams({ from: "/shell/jobs/$jobId" });
  const query = useQuery(jobQuery(jobId));
  const { t } = useTranslation();
  useDocumentTitle(`${query.data?.name ?? t("Job")} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  return <LoadedJob key={jobId} job={query.data} />;
}

function LoadedJob({ job }: { job: Job }) {
  const { t } = useTranslation();
  const isArray = job.array !== null && job.array_task_id === null;
  const outside = job.origin === "outside";
  const { tab } = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const [line, setLine] = useState<{ line: string } | null>(null);
  const logPanel = useRef<HTMLElement>(null);
  const showLine = (text: string) => {
    setLine({ line: text });
    if (activeTab !== "log") void navigate({ search: defaultTab === "log" ? {} : { tab: "log" }, replace: true });
    logPanel.current?.scrollIntoView({ block: "nearest" });
  };
  const sweep = isArray && job.sweep !== null;
  const ranks = job.distributed !== null && !isArray;
  const notebooks = job.type === "session" && job.entry_points.some(({ name }) => name === "lab");
  const tabs: Record<JobTab, boolean> = {
    notebook: job.notebook !== null,
    sweep,
    tasks: isArray && !outside,
    log: outside ? job.log_path !== null : !isArray,
    ranks: !isArray && !outside && (ranks || job.resources.nodes > 1 || notebooks),
    placement: !isArray && !outside && job.resources.nodes > 1,
    communication: ranks,
    metrics: !isArray && !outside,
    snapshot: !isArray && !outside,
    script: !outside,
    history: true,
  };
  const defaultTab: JobTab = tabs.notebook ? "notebook" : sweep ? "sweep" : tabs.tasks ? "tasks" : tabs.log ? "log" : "history";
  const activeTab = tab !== undefined && tabs[tab] ? tab : defaultTab;
  const strip = useSelectedInView<HTMLDivElement>(activeTab);
  return (
    <>
      <Head job={job} />
      <EndingAlert job={job} />
      <IdleAlert job={job} mb="md" />
      <DeletionAlert job={job} />
      <GpuIdleHint job={job} />
      <section className={`card ${classes.panel ?? ""}`} aria-label={t("Progress")}>
        <Stages job={job}>{isFailure(job.state) ? <FailureDetail job={job} onShowLine={showLine} /> : undefined}</Stages>
        <QueuePosition job={job} mt="sm" />
        <SessionRanks job={job} />
      </section>
      <div className={classes.grid}>
        <section className="card" style={{ minWidth: 0 }} ref={logPanel}>
          <Tabs
            value={activeTab}
            onChange={(next) =>
              void navigate({ search: next === defaultTab || next === null ? {} : { tab: next as JobTab }, replace: true })
            }
            keepMounted={false}
          >
            <Tabs.List ref={strip} pt={6} px={8}>
              {tabs.notebook && (
                <Tabs.Tab value="notebook" leftSection={<NotebookText size={15} />}>
                  {t("Notebook")}
                </Tabs.Tab>
              )}
              {tabs.sweep && (
                <Tabs.Tab value="sweep" leftSection={<ChartSpline size={15} />}>
                  {t("Sweep")}
                </Tabs.Tab>
              )}
              {tabs.tasks && (
                <Tabs.Tab value="tasks" leftSection={<Layers size={15} />}>
                  {t("Tasks")}
                </Tabs.Tab>
              )}
              {tabs.log && (
                <Tabs.Tab value="log" leftSection={<ScrollText size={15} />}>
                  {t("Log")}
                </Tabs.Tab>
              )}
              {tabs.ranks && (
                <Tabs.Tab value="ranks" leftSection={<Cpu size={15} />}>
                  {t("Nodes and ranks")}
                </Tabs.Tab>
              )}
              {tabs.placement && (
                <Tabs.Tab value="placement" leftSection={<Network size={15} />}>
                  {t("Placement")}
                </Tabs.Tab>
              )}
              {tabs.communication && (
                <Tabs.Tab value="communication" leftSection={<RadioTower size={15} />}>
                  {t("Communication")}
                </Tabs.Tab>
              )}
              {tabs.metrics && (
                <Tabs.Tab value="metrics" leftSection={<ChartLine size={15} />}>
                  {t("Metrics")}
                </Tabs.Tab>
              )}
              {tabs.snapshot && (
                <Tabs.Tab value="snapshot" leftSection={<Camera size={15} />}>
                  {t("Snapshot")}
                </Tabs.Tab>
              )}
              {tabs.script && (
                <Tabs.Tab value="script" leftSection={<SquareTerminal size={15} />}>
                  {t("Script")}
                </Tabs.Tab>
              )}
              <Tabs.Tab value="history" leftSection={<History size={15} />}>
                {t("History")}
              </Tabs.Tab>
            </Tabs.List>
            {tabs.notebook && (
              <Tabs.Panel value="notebook">
                <NotebookPanel job={job} />
              </Tabs.Panel>
            )}
            {tabs.tasks && (
              <Tabs.Panel value="tasks">
                <TaskTable id={job.id} />
              </Tabs.Panel>
            )}
            {tabs.log && (
              <Tabs.Panel value="log">
                {isArray ? <TaskLog job={job} /> : <LogView job={job} target={line} />}
              </Tabs.Panel>
            )}
            {tabs.ranks && (
              <Tabs.Panel value="ranks">
                <Suspense fallback={<TabSkeleton h={260} />}>
                  <RanksTab job={job} />
                </Suspense>
              </Tabs.Panel>
            )}
            {tabs.placement && (
              <Tabs.Panel value="placement">
                <Suspense fallback={<TableSkeleton rows={8} />}>
                  <PlacementTab job={job} />
                </Suspense>
              </Tabs.Panel>
            )}
            {tabs.communication && (
              <Tabs.Panel value="communication">
                <CommunicationPanel job={job} />
              </Tabs.Panel>
            )}
            {tabs.sweep && (
              <Tabs.Panel value="sweep">
                <SweepPanel job={job} />
              </Tabs.Panel>
            )}
            {tabs.metrics && (
              <Tabs.Panel value="metrics">
                <MetricsPanel job={job} />
              </Tabs.Panel>
            )}
            {tabs.snapshot && (
              <Tabs.Panel value="snapshot">
                <SnapshotPanel job={job} />
              </Tabs.Panel>
            )}
            {tabs.script && (
              <Tabs.Panel value="script">
                <JobScript job={job} />
              </Tabs.Panel>
            )}
            <Tabs.Panel value="history">
              <JobHistory job={job} />
            </Tabs.Panel>
          </Tabs>
        </section>
        <aside className={classes.aside}>
          {!isArray && !outside && (
            <section className={`card ${classes.panel ?? ""}`} aria-labelledby="usage-title">
              <Title order={2} size="h5" mb="sm" id="usage-title">
                {t("Resource usage")}
              </Title>
              <UsagePanel job={job} />
            </section>
          )}
          <section className={`card ${classes.panel ?? ""}`} aria-labelledby="details-title">
            <Title order={2} size="h5" mb="sm" id="details-title">
              {t("Details")}
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
  const { t } = useTranslation();
  const { data: templates } = useQuery(templatesQuery);
  const template = templates?.items.find((entry) => entry.name === job.template);
  const exit = describeExit(job);
  return (
    <PageHead
      back={
        <BackLink
          to="/jobs"
          further={
            <>
              {job.array_job_id !== null && (
                <Anchor component={Link} to={`/jobs/${job.array_job_id}`} size="sm" c="dimmed">
                  / {t("array job")}
                </Anchor>
              )}
              {job.session_id !== null && (
                <Anchor component={Link} to={`/jobs/${job.session_id}`} size="sm" c="dimmed">
                  / {t("session")}
                </Anchor>
              )}
            </>
          }
        >
          {t("Jobs")}
        </BackLink>
      }
      icon={<TemplateIcon name={template?.icon} session={job.type === "session"} size={48} />}
      title={nameOfJob(job)}
      badges={
        <>
          <StateBadge job={job} large testId="job-state" />
          <OutsideBadge job={job} />
        </>
      }
      sub={
        <>
          {[template?.title ?? job.template ?? (job.session_id !== null ? t("Ranks of a session") : job.type === "session" ? t("Session") : t("Job")), job.owner, describeResources(job.resources)].join(" · ")}
          {job.nodes.length > 0 && (
            <>
              {" · "}
              <NodeLinks nodes={job.nodes} short />
            </>
          )}
          {exit !== "" && ` · ${exit}`}
        </>
      }
    >
      <Actions job={job} />
    </PageHead>
  );
}

/** A note that the job is being deleted, and why its folder is still there. */
function DeletionAlert({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.delete_requested_at === null) return null;
  return (
    <Alert color={job.delete_problem === null ? "blue" : "orange"} mb="md" title={t("The job is being deleted.")} data-testid="job-deletion">
      {job.delete_problem === null ? t("It disappears as soon as its folder is removed.") : <ServerText>{job.delete_problem}</ServerText>}
    </Alert>
  );
}

function Actions({ job }: { job: Job }) {
  const { t } = useTranslation();
  const { stop, hold, release } = useJobActions(job);
  const [confirming, setConfirming] = useState(false);
  const session = job.type === "session";
  const allowed = new Set(job.actions);
  return (
    <>
      {allowed.has("open") && <OpenButton job={job} size="sm" />}
      <MoreEntryPoints job={job} size={36} />
      <TerminalButton job={job} />
      {allowed.has("extend") && <ExtendMenu job={job} size="sm" />}
      {allowed.has("continue") && <ContinueButton job={job} size="sm" />}
      {allowed.has("resubmit") && <RerunButton job={job} />}
      {job.origin !== "outside" && job.session_id === null && (
        <ComposeLink from={job.id} variant="default" testId="job-compose">
          {t("Edit as new job")}
        </ComposeLink>
      )}
      {allowed.has("hold") && (
        <ChangeButton
          variant="default"
          size="sm"
          leftSection={<Pause size={16} />}
          loading={hold.isPending}
          onClick={() => hold.mutate()}
          data-testid="job-hold"
        >
          {t("Hold")}
        </ChangeButton>
      )}
      {allowed.has("release") && (
        <ChangeButton
          variant="default"
          size="sm"
          leftSection={<Play size={16} />}
          loading={release.isPending}
          onClick={() => release.mutate()}
          data-testid="job-release"
        >
          {t("Release")}
        </ChangeButton>
      )}
      {(allowed.has("cancel") || allowed.has("stop")) && (
        <Button
          variant="outline"
          color="red"
          size="sm"
          leftSection={<Square size={14} />}
          disabled={job.cancel_requested}
          onClick={() => setConfirming(true)}
          data-testid={session ? "session-stop" : "job-cancel"}
        >
          {session ? t("Stop") : job.session_id === null ? t("Cancel") : t("Release ranks")}
        </Button>
      )}
      <DeleteButton job={job} />
      <EndConfirm job={job} opened={confirming} stop={stop} onClose={() => setConfirming(false)} />
    </>
  );
}
