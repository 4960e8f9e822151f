import { Anchor, Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleHelp, OctagonAlert, TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { auditQuery, countsQuery, type Health, healthQuery, maintenanceQuery, type PartHealth } from "@/api/admin";
import { nodesQuery } from "@/api/queries";
import { IdleGpuList } from "@/components/GpuIdle";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { Said } from "@/components/Said";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { CLOSED } from "@/lib/nodes";
import type { PagePath } from "@/lib/pages";
import { HEALTH_LOOKS, partName } from "@/lib/severity";
import { AuditTable } from "@/pages/admin/AuditTable";
import classes from "./Admin.module.css";

/** Where the cause of a part's problem is looked for. */
const WHERE: Partial<Record<string, PagePath>> = {
  scheduler: "/admin/nodes",
  nodes: "/admin/nodes",
  queue: "/admin/jobs",
  templates: "/admin/catalogue",
  storage: "/admin/settings",
  disk: "/admin/settings",
};
const NOBODY = {};
/** Coming in changes nothing. */
const ARRIVALS = new Set(["login", "create_login_link", "logout"]);

/** What is broken, since when, and what to do about it. */
export function AdminOverviewPage() {
  const { t } = useTranslation();
  const health = useQuery(healthQuery);
  return (
    <>
      <PageTitle title={t("Administration")}>
        {health.data && (
          <Text size="sm" c="dimmed">
            {t("Looked at")} <RelativeTime at={health.data.as_of} /> · Aitne {health.data.version}
          </Text>
        )}
      </PageTitle>
      {health.isPending && <Skeleton height={92} radius={12} />}
      {health.isError && !health.data && <PageError compact error={health.error} onRetry={() => void health.refetch()} />}
      {health.data && <Verdict health={health.data} stale={health.isError} />}
      <Tiles />
      {health.data && <Works parts={health.data.parts.filter((part) => part.state === "ok")} />}
      <section className="card" aria-label={t("GPUs that do nothing")} style={{ padding: 20, marginTop: 16 }}>
        <h2 style={{ fontSize: 16, margin: "0 0 12px" }}>{t("GPUs that do nothing")}</h2>
        <IdleGpuList />
      </section>
      <Latest />
    </>
  );
}

function Verdict({ health, stale }: { health: Health; stale: boolean }) {
  const { t } = useTranslation();
  const wrong = health.parts.filter((part) => part.state !== "ok");
  const Icon = wrong.length === 0 ? CircleCheck : health.state === "down" ? OctagonAlert : health.state === "unknown" ? CircleHelp : TriangleAlert;
  const { tone } = HEALTH_LOOKS[health.state];
  return (
    <section className="card" aria-labelledby="verdict" data-testid="admin-verdict">
      <div className={classes.verdict}>
        <Icon size={26} color={`var(--${tone})`} aria-hidden />
        <div>
          <h2 id="verdict">{wrong.length === 0 ? t("Everything works.") : t("{{count}} parts need you.", { count: wrong.length })}</h2>
          <p>
            {stale
              ? t("The platform does not answer now; this is what it said last.")
              : wrong.length === 0
                ? t("Every part was looked at a moment ago, and is looked at again every few seconds.")
                : t("The worst comes first. What runs goes on unless it says otherwise.")}
          </p>
        </div>
      </div>
      {wrong.map((part) => (
        <Problem key={part.name} part={part} />
      ))}
    </section>
  );
}

function Problem({ part }: { part: PartHealth }) {
  const { t } = useTranslation();
  const look = HEALTH_LOOKS[part.state];
  const where = WHERE[part.name];
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
        <Said>{part.says}</Said>
      </p>
      {(part.advice !== null || where !== undefined) && (
        <p className={classes.advice}>
          {part.advice !== null && <Said>{part.advice}</Said>}{" "}
          {where !== undefined && (
            <Anchor component={Link} to={where} size="sm" underline="always">
              {t("Look there")}
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
  const of = (...states: string[]) =>
    counts === undefined ? "–" : states.reduce((sum, state) => sum + ((counts.states as Record<string, number | undefined>)[state] ?? 0), 0);
  const closed = nodes?.items.filter((node) => CLOSED.has(node.state)).length;
  const phase = maintenance?.phase;
  return (
    <div className={classes.tiles}>
      <Link to="/admin/jobs" search={{ state: "running" }} className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{of("STARTING", "RUNNING", "READY", "COMPLETING", "SUSPENDED")}</strong>
        <span>{t("running")}</span>
      </Link>
      <Link to="/admin/jobs" search={{ state: "waiting" }} className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{of("PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED")}</strong>
        <span>{t("waiting")}</span>
      </Link>
      <Link to="/admin/nodes" className={`card ${classes.tile ?? ""}`}>
        <strong className="tabular">{closed === undefined ? "–" : t("{{used}} of {{total}}", { used: (nodes?.items.length ?? 0) - closed, total: nodes?.items.length ?? 0 })}</strong>
        <span>{t("nodes take work")}</span>
      </Link>
      <Link to="/admin/announcements" className={`card ${classes.tile ?? ""}`}>
        <strong>{phase === undefined ? "–" : phase === "on" ? t("On") : phase === "scheduled" ? t("Scheduled") : t("Off")}</strong>
        <span>{t("maintenance")}</span>
      </Link>
    </div>
  );
}

function Works({ parts }: { parts: PartHealth[] }) {
  const { t } = useTranslation();
  if (parts.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby="works">
      <h2 className={classes.heading} id="works">
        {t("What works")}
      </h2>
      <div className={`card ${classes.parts ?? ""}`} style={{ overflow: "hidden" }}>
        {parts.map((part) => (
          <div key={part.name} className={classes.part}>
            <CircleCheck size={16} color="var(--good)" aria-hidden />
            <div>
              <strong>{t(partName(part.name))}</strong>
              <p>
                <Said>{part.says}</Said>
              </p>
              {part.last_problem !== null && part.last_problem_at !== null && (
                <p>
                  {t("Last problem")} <RelativeTime at={part.last_problem_at} />: <Said>{part.last_problem}</Said>
                </p>
              )}
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}

function Latest() {
  const { t } = useTranslation();
  const { data } = useInfiniteQuery(auditQuery(NOBODY));
  const entries = data?.pages[0]?.items.filter((entry) => !ARRIVALS.has(entry.action)).slice(0, 6) ?? [];
  if (entries.length === 0) return null;
  return (
    <section className={classes.section} aria-labelledby="latest">
      <h2 className={classes.heading} id="latest">
        {t("Changed last")}{" "}
        <Anchor component={Link} to="/admin/audit" size="sm" ml={8}>
          {t("All of the audit log")}
        </Anchor>
      </h2>
      <div className="card" style={{ overflow: "hidden" }}>
        <AuditTable entries={entries} />
      </div>
    </section>
  );
}
