import { Anchor, Group, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { recentQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { StateBadge } from "@/components/StateBadge";
import { RelativeTime } from "@/components/Time";
import { nameOfJob } from "@/lib/describe";
import classes from "@/components/Dashboard.module.css";

export function RecentJobs({ user }: { user: string }) {
  const { t } = useTranslation();
  const recent = useQuery(recentQuery(user));
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="recent-title">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h5" id="recent-title">
          {t("Recent jobs")}
        </Title>
        <Anchor component={Link} to="/jobs" size="sm">
          {t("All jobs")}
        </Anchor>
      </Group>
      {recent.isPending && <PanelSkeleton rows={4} />}
      {recent.isError && !recent.data && (
        <PageError compact error={recent.error} onRetry={() => recent.refetch()} />
      )}
      {recent.data?.items.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("Your jobs and sessions appear here, newest first.")}
        </Text>
      )}
      <div className={classes.recent}>
        {recent.data?.items.map((job) => (
          <Link key={job.id} to="/jobs/$jobId" params={{ jobId: job.id }} className={classes.recentRow}>
            <span className="truncate" title={nameOfJob(job)}>
              {nameOfJob(job)}
            </span>
            <StateBadge job={job} />
            <span className={classes.recentWhen}>
              <RelativeTime at={job.created_at} />
            </span>
          </Link>
        ))}
      </div>
    </section>
  );
}
