import { Anchor } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { BellOff } from "lucide-react";
import { useTranslation } from "react-i18next";
import { newestQuery } from "@/api/notifications";
import { ChangeButton } from "@/components/ChangeButton";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { useRefusal } from "@/hooks/use-refusal";
import { NotificationList } from "./NotificationList";
import { useMarkRead } from "./use-mark-read";
import classes from "./Notifications.module.css";

/** The newest notifications, opened by the bell. */
export function Newest({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const query = useQuery(newestQuery);
  const read = useMarkRead();
  const refusal = useRefusal();
  const items = query.data?.items ?? [];
  return (
    <section aria-label={t("Notifications")}>
      <div className={classes.head}>
        <strong>{t("Notifications")}</strong>
        {(query.data?.unread ?? 0) > 0 && (
          <ChangeButton size="compact-xs" variant="subtle" onClick={() => read.mutate(null)} data-testid="read-all">
            {t("Mark all as read")}
          </ChangeButton>
        )}
      </div>
      <div className={classes.scroll}>
        {query.isPending && (
          <div style={{ padding: 16 }}>
            <PanelSkeleton rows={4} />
          </div>
        )}
        {query.isError && !query.data && <PageError error={query.error} onRetry={() => query.refetch()} />}
        {query.data && items.length === 0 && (
          <EmptyState icon={BellOff} title={t("No notifications yet")}>
            {t("Notifications about ready sessions, ended jobs and expiring time limits appear here.")}
          </EmptyState>
        )}
        {items.length > 0 && (
          <NotificationList
            items={items}
            onFollow={(notification) => {
              if (notification.read_at === null && refusal === null) read.mutate([notification.id]);
              onClose();
            }}
          />
        )}
      </div>
      <div className={classes.foot}>
        <Anchor component={Link} to="/notifications" size="sm" onClick={onClose}>
          {t("All notifications")}
        </Anchor>
        {" · "}
        <Anchor component={Link} to="/account/notifications" size="sm" onClick={onClose}>
          {t("Settings")}
        </Anchor>
      </div>
    </section>
  );
}
