import { Button, Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { History } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type NodeEvent, nodeHistoryQuery } from "@/api/admin";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import { msg } from "@/i18n/msg";
import { nodeLook } from "./nodes";
import classes from "@/components/Admin.module.css";

const EVENT_LABELS: Partial<Record<string, string>> = {
  up: msg("Available"),
  drain: msg("Drained by {{name}}"),
  resume: msg("Resumed by {{name}}"),
  gone: msg("Removed from the scheduler"),
};

/** Failures, drains and resumes of a node, newest first. */
export function NodeHistory({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(nodeHistoryQuery(name));
  if (query.isPending) return <Skeleton height={120} radius={8} />;
  if (query.isError && !query.data) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const events = query.data.pages.flatMap((page) => page.items);
  if (events.length === 0) {
    return (
      <EmptyState icon={History} title={t("No events yet")}>
        {t("Failures, drain and resume actions of this node are listed here.")}
      </EmptyState>
    );
  }
  return (
    <>
      <ol className={classes.events}>
        {events.map((event) => (
          <NodeEventItem key={event.id} event={event} />
        ))}
      </ol>
      {query.hasNextPage && (
        <div className={classes.more}>
          <Button variant="default" size="compact-md" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {t("Show more")}
          </Button>
        </div>
      )}
    </>
  );
}

function NodeEventItem({ event }: { event: NodeEvent }) {
  const { t } = useTranslation();
  const label = EVENT_LABELS[event.event];
  return (
    <li>
      <strong>{label === undefined ? t(nodeLook(event.event).label) : t(label, { name: event.actor })}</strong>{" "}
      <Text span size="xs" c="dimmed">
        <RelativeTime at={event.time} />
      </Text>
      {event.reason && <p>{event.reason}</p>}
    </li>
  );
}
