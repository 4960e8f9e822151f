import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Cpu } from "lucide-react";
import { useTranslation } from "react-i18next";
import { ranksQuery } from "@/api/ranks";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { StateBadge } from "@/components/StateBadge";
import { TabSkeleton } from "@/components/TabSkeleton";
import { describeGroup } from "@/features/sessions/ranks/ranks";
import { isActive } from "@/lib/states";
import { CommunicationPanel } from "./CommunicationPanel";
import { RankMetricsPanel } from "./RankMetricsPanel";
import classes from "./RanksTab.module.css";

/** Usage by node and rank: of a job its own, of a session also that of its attached ranks. */
export function RanksTab({ job }: { job: Job }) {
  const own = job.distributed !== null || job.resources.nodes > 1;
  return (
    <>
      {own && <RankMetricsPanel job={job} />}
      {job.type === "session" && <AttachedGroups session={job} own={own} />}
    </>
  );
}

/** Usage and communication of the groups that run, or of the last one that ran. */
function AttachedGroups({ session, own }: { session: Job; own: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(ranksQuery(session.id));
  if (query.isPending) return <TabSkeleton h={260} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const started = query.data.items.filter((group) => group.started_at !== null);
  const running = started.filter((group) => isActive(group.state));
  const shown = running.length > 0 ? running : started.slice(0, 1);
  if (shown.length === 0) {
    if (own) return null;
    return (
      <EmptyState icon={Cpu} title={t("No ranks")}>
        {t("Ranks that are attached to this session appear here with their usage and communication.")}
      </EmptyState>
    );
  }
  return shown.map((group) => (
    <section key={group.id} className={classes.group} aria-label={describeGroup(group)}>
      <h2 className={classes.head}>
        <Anchor component={Link} to={`/jobs/${group.id}`} fw={650} c="inherit">
          {describeGroup(group)}
        </Anchor>
        <StateBadge job={group} />
      </h2>
      <RankMetricsPanel job={group} />
      <CommunicationPanel job={group} />
    </section>
  ));
}

export default RanksTab;
