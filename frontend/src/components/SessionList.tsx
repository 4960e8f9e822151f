import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Rocket } from "lucide-react";
import { useTranslation } from "react-i18next";
import { sessionsQuery, templatesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { SessionCard } from "@/components/SessionCard";
import { useDismissed } from "@/hooks/use-dismissed";
import { useSlowNow } from "@/hooks/use-now";
import { sessionsWithCard } from "@/lib/session-cards";
import classes from "@/pages/Dashboard.module.css";

export function SessionList({ user }: { user: string }) {
  const { t } = useTranslation();
  const sessions = useQuery(sessionsQuery(user));
  const { data: templates } = useQuery(templatesQuery);
  const { dismissed, dismiss } = useDismissed();
  const now = useSlowNow();
  if (sessions.isPending) {
    return (
      <div className={`card ${classes.panel ?? ""}`} aria-busy="true">
        <span className="visually-hidden">{t("Loading")}</span>
        <Skeleton h={40} mb={20} w="60%" />
        <Skeleton h={56} />
      </div>
    );
  }
  if (!sessions.data) {
    return (
      <div className="card">
        <PageError compact error={sessions.error} onRetry={() => void sessions.refetch()} />
      </div>
    );
  }
  const shown = sessionsWithCard(sessions.data.items, dismissed, now);
  if (shown.length === 0) {
    return (
      <div className={classes.well}>
        <EmptyState icon={Rocket} title={t("No running sessions")}>
          {t("Select a template above and launch it. The session appears here with its progress until it is ready.")}
        </EmptyState>
      </div>
    );
  }
  return (
    <div className={classes.sessions}>
      {shown.map((job) => {
        const template = templates?.items.find((entry) => entry.name === job.template);
        return (
          <SessionCard
            key={job.id}
            job={job}
            icon={template?.icon}
            templateTitle={template?.title ?? job.template ?? undefined}
            onDismiss={dismiss}
          />
        );
      })}
    </div>
  );
}
