import { useQuery } from "@tanstack/react-query";
import { HeartCrack } from "lucide-react";
import { useTranslation } from "react-i18next";
import { nodesQuery } from "@/api/queries";
import { useNow } from "@/hooks/use-now";
import { formatClock } from "@/lib/time";

/** Warns that the scheduler does not respond and that the data may be outdated. */
export function SchedulerBanner({ className }: { className: string }) {
  const { data: status } = useQuery({ ...nodesQuery, select: (nodes) => nodes.scheduler });
  return (
    <div role="status">
      {status?.responding === false && <Banner className={className} since={status.since} message={status.message} />}
    </div>
  );
}

function Banner({ className, since, message }: { className: string; since: string; message: string | null }) {
  const { t } = useTranslation();
  const now = useNow();
  return (
    <div className={className} data-testid="scheduler-banner" title={message ?? undefined}>
      <HeartCrack size={15} aria-hidden />
      {t("The scheduler has not responded since {{time}}. States may be outdated; new jobs are submitted when it responds again.", { time: formatClock(new Date(since), now) })}
    </div>
  );
}
