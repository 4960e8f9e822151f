import { Popover, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Bell as BellIcon } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { newestQuery } from "@/api/notifications";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import classes from "./Bell.module.css";

const load = () => import("./Newest");
const Newest = lazy(async () => ({ default: (await load()).Newest }));

/** Header button with the number of unread notifications; it opens the newest ones. */
export function Bell() {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const { data } = useQuery(newestQuery);
  const unread = data?.unread ?? 0;
  return (
    <Popover opened={opened} onChange={setOpened} width={380} position="bottom-end" trapFocus returnFocus shadow="md" withinPortal>
      <Popover.Target>
        <UnstyledButton
          className={classes.bell}
          onClick={() => setOpened((old) => !old)}
          onPointerEnter={() => void load()}
          aria-label={unread === 0 ? t("Notifications") : t("Notifications, {{count}} unread", { count: unread })}
          data-testid="bell"
        >
          <BellIcon size={18} aria-hidden />
          {unread > 0 && (
            <span className={classes.count} aria-hidden data-testid="unread">
              {unread > 99 ? "99+" : unread}
            </span>
          )}
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown p={0} maw="calc(100vw - 24px)">
        <Suspense
          fallback={
            <div className={classes.waiting}>
              <PanelSkeleton rows={6} />
            </div>
          }
        >
          <Newest onClose={() => setOpened(false)} />
        </Suspense>
      </Popover.Dropdown>
    </Popover>
  );
}
