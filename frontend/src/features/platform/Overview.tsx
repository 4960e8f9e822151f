import { Anchor, Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleHelp, OctagonAlert, TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { auditQuery, countsQuery, type Health, healthQuery, maintenanceQuery, type PartHealth } from "@/api/admin";
import { nodesQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { ServerText } from "@/components/ServerText";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { AuditTable } from "@/features/audit/AuditTable";
import { CLOSED } from "@/features/cluster/nodes";
import { IdleGpus } from "@/features/jobs/admin/IdleGpus";
import type { PagePath } from "@/lib/pages";
import { healthLook, partName } from "./severity";
import classes from "@/components/Admin.module.css";

/** Pages with details about a component's problem. */
const DETAIL_PAGES: Partial<Record<string, PagePath>> = {
  scheduler: "/admin/nodes",
  nodes: "/admin/nodes",
  queue: "/admin/jobs",
  templates: "/admin/catalogue",
  storage: "/admin/settings",
  disk: "/admin/settings",
};
const NO_FILTER = {};
/** Actions that change no data, hidden in the recent changes. */
const LOGIN_ACTIONS = new Set(["login", "create_login_link", "logout"]);

/** Health of the platform's components, with counts and recent changes. */
export function AdminOverviewPage() {
  const { t } = useTranslation();
  const health = useQuery(healthQuery);
  return (
    <>
      <PageTitle title={t("Administration")}>
        {health.data && (
          <Text size="sm" c="dimmed">
            {t("Updated")} <RelativeTime at={health.data.as_of} /> · Aitne {health.data.version}
          </Text>
        )}
      </PageTitle>
      {health.isPending && <Skeleton height={92} radius={12} />}
      {health.isError && !health.data && <PageError compact error={health.error} onRetry={() => health.refetch()} />}
      {health.data && <HealthSummary health={health.data} stale={health.isError} />}
      <Tiles />
      {health.data && <HealthyComponents parts={health.data.parts.filter((part) => part.state === "ok")} />}
      <section className="card" aria-label={t("Idle GPUs")} style={{ padding: 20, marginTop: 16 }}>
        <h2 style={{ fontSize: 16, margin: "0 0 12px" }}>{t("Idle GPUs")}</h2>
        <IdleGpus />
      </section>
      <RecentChanges />
    </>
  );
}

function HealthSummary({ health, stale }: { health: Health; stale: boolean }) {
  const { t } = useTranslation();
  const problems = health.parts.filter((part) => part.state !== "ok");
  const Icon = problems.length === 0 ? CircleCheck : health.state === "down" ? OctagonAlert : health.state === "unknown" ? CircleHelp : TriangleAlert;
  const { tone } = healthLook(health.state);
  return (
    <section className="card" aria-labelledby="health" data-testid="admin-verdict">
      <div className={classes.health}>
        <Icon size={26} color={`var(--${tone})`} aria-hidden />
        <div>
          <h2 id="health">{problems.length === 0 ? t("All components operational") : t("{{count}} components need attention", { count: problems.length })}</h2>
          <p>
            {stale
              ? t("The platform is not reachable. Showing the last known status.")
              : problems.length === 0
                ? t("Components are checked every few seconds.")
                : t("Sorted by severity. Running jobs continue unless stated otherwise.")}
          </p>
        </div>
      </div>
      {problems.map((part) => (
        <Problem key={part.name} part={part} />
      ))}
    </section>
  );
}

function Problem({ part }: { part: PartHealth }) {
  const { t } = useTranslation();
  const look = healthLook(part.state);
  const detailPage = DETAIL_PAGES[part.name];
  return (
    <article className={classes.problem} data-testid="admin-problem">
      <span className={classes.badge}>
        <ToneBadge tone={look.tone} dot>
          {t(look.label)}
        </ToneBadge>
      </span>
      <h3>{t(partName(part.name))}</h3>
      <span>
        <RelativeTime at={part.since} />
      </span>
      <p>
        <ServerText>{part.message}</ServerText>
      </p>
      {(part.advice !== null || detailPage !== undefined) && (
        <p className={classes.advice}>
          {part.advice !== null && <ServerText>{part.advice}</ServerText>}{" "}
          {detailPage !== undefined && (
            <Anchor component={Link} to={detailPage} size="sm" underline="always">
              {t("View details")}
            </Anchor>
          )}
        </p>
      )}
    </article>
  );
}

function Tiles() {
  const { t } = useTranslation();
  const { data: counts } = useQuery(countsQuery);
  const { data: nodes } = useQuery(nodesQuery);
  const { data: maintenance } = useQuery(maintenanceQuery);
  const countOf = (...states: string[]) =>
    counts === undefined ? "–" : states.reduce((sum, state) => sum + ((counts.states as Record<string, number | undefined>)[state] ?? 0), 0);
  const closed = nodes?.items.filter((node) => CLOSED.has(node.state)).length;
  const phase = maintenance?.phase;
  return (
    <div className={classes.tiles}>
      <Link to="/admin/jobs" search={{ state: "running" }} className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{countOf("STARTING", "RUNNING", "READY", "COMPLETING", "SUSPENDED")}</strong>
        <span>{t("running jobs")}</span>
      </Link>
      <Link to="/admin/jobs" search={{ state: "waiting" }} className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{countOf("PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED")}</strong>
        <span>{t("pending jobs (an array counts as one)")}</span>
      </Link>
      <Link to="/admin/nodes" className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{closed === undefined ? "–" : t("{{used}} of {{total}}", { used: (nodes?.items.length ?? 0) - closed, total: nodes?.items.length ?? 0 })}</strong>
        <span>{t("nodes available")}</span>
      </Link>
      <Link to="/admin/announcements" className={`card ${classes.tile ?? ""}`}>
        <strong>{phase === undefined ? "–" : phase === "on" ? t("On") : phase === "scheduled" ? t("Scheduled") : t("Off")}</strong>
        <span>{t("maintenance")}</span>
      </Link>
    </div>
  );
}

function HealthyComponents({ parts }: { parts: PartHealth[] }) {
  const { t } = useTranslation();
  if (parts.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby="components">
      <h2 className={classes.heading} id="components">
        {t("Components")}
      </h2>
      <div className={`card ${classes.parts ?? ""}`} style={{ overflow: "hidden" }}>
        {parts.map((part) => (
          <div key={part.name} className={classes.part}>
            <CircleCheck size={16} color="var(--good)" aria-hidden />
            <div>
              <strong>{t(partName(part.name))}</strong>
              <p>
                <ServerText>{part.message}</ServerText>
              </p>
              {part.last_problem !== null && part.last_problem_at !== null && (
                <p>
                  {t("Last problem")} <RelativeTime at={part.last_problem_at} />: <ServerText>{part.last_problem}</ServerText>
                </p>
              )}
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}

function RecentChanges() {
  const { t } = useTranslation();
  const { data } = useInfiniteQuery(auditQuery(NO_FILTER));
  const entries = data?.pages[0]?.items.filter((entry) => !LOGIN_ACTIONS.has(entry.action)).slice(0, 6) ?? [];
  if (entries.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby="recent-changes">
      <h2 className={classes.heading} id="recent-changes">
        {t("Recent changes")}{" "}
        <Anchor component={Link} to="/admin/audit" size="sm" ml={8}>
          {t("Full audit log")}
        </Anchor>
      </h2>
      <div className="card" style={{ overflow: "hidden" }}>
        <AuditTable entries={entries} jobNames={data?.pages[0]?.job_names ?? {}} />
      </div>
    </section>
  );
}
