import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Rocket } from "lucide-react";
import { useTranslation } from "react-i18next";
import { sessionsQuery, templatesQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { useSlowNow } from "@/hooks/use-now";
import { sessionsWithCard } from "./session-cards";
import { SessionCard } from "./SessionCard";
import { useDismissed } from "./use-dismissed";
import classes from "@/components/Dashboard.module.css";

export function SessionList({ user }: { user: string }) {
  const { t } = useTranslation();
  const sessions = useQuery(sessionsQuery(user));
  const { data: templates } = useQuery(templatesQuery);
  const { dismissed, dismiss } = useDismissed();
  const now = useSlowNow();
  if (sessions.isPending) {
    return (
      <div className={`${classes.well ?? ""} ${classes.idle ?? ""}`} aria-busy="true">
        <span className="visually-hidden">{t("Loading")}</span>
        <Skeleton h={22} w="50%" />
      </div>
    );
  }
  if (!sessions.data) {
    return (
      <div className="card">
        <PageError compact error={sessions.error} onRetry={() => sessions.refetch()} />
      </div>
    );
  }
  const shown = sessionsWithCard(sessions.data.items, dismissed, now);
  if (shown.length === 0) {
    return (
      <p className={`${classes.well ?? ""} ${classes.idle ?? ""}`}>
        <Rocket size={18} aria-hidden />
        {t("No running sessions. Launch one below.")}
      </p>
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
