import { Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { jobEventsQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { TableSkeleton } from "@/components/TableSkeleton";
import { useSlowNow } from "@/hooks/use-now";
import { locale } from "@/i18n/locale";
import { historyOf } from "@/lib/history";
import { formatAbsolute, formatRelative } from "@/lib/time";
import classes from "@/components/Job.module.css";

export function JobHistory({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery({ ...jobEventsQuery(job.id), staleTime: 0 });
  const now = useSlowNow();
  if (query.isPending) return <TableSkeleton rows={5} />;
  if (!query.data) return <PageError error={query.error} onRetry={() => query.refetch()} />;
  const lines = historyOf(query.data.items, job.type === "session");
  if (lines.length === 0) {
    return (
      <Text p="lg" size="sm" c="dimmed">
        {t("Events are no longer available.")}
      </Text>
    );
  }
  return (
    <ol className={classes.history} data-testid="job-history">
      {lines.map((line) => {
        const at = new Date(line.time);
        return (
          <li key={line.id} className={classes.event}>
            <Tooltip label={formatRelative(at, now)}>
              <time dateTime={line.time} className="tabular">
                {at.toLocaleTimeString(locale())}
                <span className="visually-hidden">, {formatAbsolute(at)}</span>
              </time>
            </Tooltip>
            <span>
              <strong>{line.title}</strong>
              {line.message !== null && <span className={classes.eventMessage}>
                  <ServerText>{line.message}</ServerText>
                </span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
