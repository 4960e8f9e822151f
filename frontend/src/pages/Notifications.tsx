import { Button, Group, SegmentedControl } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BellOff, CheckCheck, Settings } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { inboxQuery } from "@/api/notifications";
import { EmptyState } from "@/components/EmptyState";
import { ToldList } from "@/components/notifications/ToldList";
import { useMarkRead } from "@/components/notifications/use-mark-read";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { PanelSkeleton } from "@/components/PanelSkeleton";

/** The whole inbox. */
export function NotificationsPage() {
  const { t } = useTranslation();
  const [show, setShow] = useState("all");
  const query = useInfiniteQuery(inboxQuery(show === "unread"));
  const read = useMarkRead();
  const items = query.data?.pages.flatMap((page) => page.items) ?? [];
  const unread = query.data?.pages[0]?.unread ?? 0;
  return (
    <>
      <PageTitle title={t("Notifications")}>
        <Group gap="xs">
          <SegmentedControl
            size="xs"
            value={show}
            onChange={setShow}
            aria-label={t("Which to show")}
            data={[
              { value: "all", label: t("All") },
              { value: "unread", label: t("Not read") },
            ]}
          />
          <Button
            size="xs"
            variant="default"
            leftSection={<CheckCheck size={15} />}
            disabled={unread === 0}
            onClick={() => read.mutate(null)}
          >
            {t("Mark all as read")}
          </Button>
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
        {query.isError && !query.data && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {query.data && items.length === 0 && (
          <EmptyState icon={BellOff} title={show === "unread" ? t("All is read") : t("Nothing yet")}>
            {t("You are told here when sessions are ready, jobs end and time runs out.")}
          </EmptyState>
        )}
        {items.length > 0 && (
          <ToldList items={items} onFollow={(told) => told.read_at === null && read.mutate([told.id])} />
        )}
      </div>
      {query.hasNextPage && (
        <Button mt="md" variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {t("Show older ones")}
        </Button>
      )}
    </>
  );
}
