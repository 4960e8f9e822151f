import { Button, Group, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BellOff, CheckCheck, Settings } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { inboxQuery } from "@/api/notifications";
import { ChangeButton } from "@/components/ChangeButton";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { useRefusal } from "@/hooks/use-refusal";
import { NotificationList } from "./NotificationList";
import { useMarkRead } from "./use-mark-read";

/** Inbox with all notifications. */
export function NotificationsPage() {
  const { t } = useTranslation();
  const [filter, setFilter] = useState("all");
  const query = useInfiniteQuery(inboxQuery(filter === "unread"));
  const markRead = useMarkRead();
  const refusal = useRefusal();
  const items = query.data?.pages.flatMap((page) => page.items) ?? [];
  const unread = query.data?.pages[0]?.unread ?? 0;
  return (
    <>
      <PageTitle title={t("Notifications")}>
        <Group gap="xs">
          <SegmentedControl
            size="xs"
            value={filter}
            onChange={setFilter}
            aria-label={t("Filter notifications")}
            data={[
              { value: "all", label: t("All") },
              { value: "unread", label: t("Unread") },
            ]}
          />
          <ChangeButton
            size="xs"
            variant="default"
            leftSection={<CheckCheck size={15} />}
            disabled={unread === 0}
            onClick={() => markRead.mutate(null)}
          >
            {t("Mark all as read")}
          </ChangeButton>
          <Button size="xs" variant="default" leftSection={<Settings size={15} />} component={Link} to="/account/notifications">
            {t("Settings")}
          </Button>
        </Group>
      </PageTitle>
      <div className="card" style={{ overflow: "hidden", maxWidth: 820 }}>
        {query.isPending && (
          <div style={{ padding: 20 }}>
            <PanelSkeleton rows={6} />
          </div>
        )}
        {query.isError && !query.data && <PageError error={query.error} onRetry={() => query.refetch()} />}
        {query.data && items.length === 0 && (
          <EmptyState icon={BellOff} title={filter === "unread" ? t("No unread notifications") : t("No notifications yet")}>
            {t("Notifications about ready sessions, ended jobs and expiring time limits appear here.")}
          </EmptyState>
        )}
        {items.length > 0 && (
          <NotificationList items={items} onFollow={(notification) => notification.read_at === null && refusal === null && markRead.mutate([notification.id])} />
        )}
      </div>
      {query.hasNextPage && (
        <Button mt="md" variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t("Show older")}
        </Button>
      )}
    </>
  );
}
