import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import i18next from "i18next";
import { AlarmClock } from "lucide-react";
import { extendJob } from "@/api/actions";
import { notifyDone, notifyProblem } from "@/components/notify";
import { msg } from "@/i18n/msg";
import { type Ending, endingKey, endingTitle } from "@/lib/ending";

const ADVICE = msg("Save your work or extend the session.");

/** Shows a toast, and a browser notification while the page is hidden and notifications are allowed. */
export function notifyEnding(ending: Ending): void {
  const id = endingKey(ending);
  const extend = () => {
    notifications.hide(id);
    extendJob(ending.jobId, "1h").then(
      () => notifyDone(i18next.t("{{name}} extended.", { name: ending.name })),
      (error: unknown) => notifyProblem(i18next.t("{{name}} was not extended", { name: ending.name }), error),
    );
  };
  notifications.show({
    id,
    title: endingTitle(ending),
    color: "orange",
    icon: <AlarmClock size={17} />,
    autoClose: ending.leftS * 1_000,
    role: "alert",
    "data-testid": "session-ending",
    message: (
      <Group justify="space-between" wrap="nowrap">
        <Text size="sm">{i18next.t(ADVICE)}</Text>
        <Button size="compact-xs" variant="light" onClick={extend}>
          {i18next.t("Extend by 1 hour")}
        </Button>
      </Group>
    ),
  });
  if (document.hidden && canNotify()) new Notification(endingTitle(ending), { body: i18next.t(ADVICE), tag: id });
}

function canNotify(): boolean {
  return typeof Notification !== "undefined" && Notification.permission === "granted";
}

/** Called when a session is opened, because its page then covers the portal. */
export function requestNotificationPermission(): void {
  if (typeof Notification !== "undefined" && Notification.permission === "default") {
    void Notification.requestPermission();
  }
}
