import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import i18next from "i18next";
import { Bell, CircleAlert, CircleCheck, Moon, TriangleAlert } from "lucide-react";
import { keepSession, type Level, type InboxNotification } from "@/api/notifications";
import { CodeText } from "@/components/CodeText";
import { notifyDone, notifyProblem } from "@/components/notify";
import { known } from "@/lib/known";
import { bodyOf, titleOf } from "@/lib/notifications";
import { withoutMarks } from "@/lib/without-marks";

export type NewNotification = Pick<InboxNotification, "id" | "kind" | "level" | "title" | "text" | "data" | "job_id">;

const LOOKS: Record<Level, { color: string; icon: typeof Bell }> = {
  info: { color: "indigo", icon: Bell },
  success: { color: "moon", icon: CircleCheck },
  warning: { color: "orange", icon: TriangleAlert },
  error: { color: "red", icon: CircleAlert },
};

/** Shows a toast, and a browser notification while the page is hidden and notifications are allowed. */
export function showNotification(notification: NewNotification): void {
  const title = titleOf(notification);
  const tag = `notification-${notification.id}`;
  // The end of a session has a toast of its own with a button to extend it (`notifyEnding`).
  if (notification.kind !== "session_expiring") {
    const { color, icon: Icon } = known(LOOKS, notification.level, LOOKS.info);
    const idle = notification.kind === "session_idle";
    notifications.show({
      id: tag,
      title,
      color,
      icon: idle ? <Moon size={17} /> : <Icon size={17} />,
      autoClose: idle ? 60_000 : 8_000,
      role: "status",
      "data-testid": "told",
      message: idle && notification.job_id !== null ? <KeepSession notification={notification} id={notification.job_id} tag={tag} /> : <CodeText>{firstLine(bodyOf(notification))}</CodeText>,
    });
  }
  if (document.hidden && typeof Notification !== "undefined" && Notification.permission === "granted") {
    new Notification(title, { body: withoutMarks(firstLine(bodyOf(notification))), tag });
  }
}

function KeepSession({ notification, id, tag }: { notification: NewNotification; id: string; tag: string }) {
  const keep = () => {
    notifications.hide(tag);
    const name = typeof notification.data.name === "string" ? notification.data.name : "";
    keepSession(id).then(
      () => notifyDone(i18next.t("{{name}} keeps running.", { name })),
      (error: unknown) => notifyProblem(i18next.t("{{name}} was not kept", { name }), error),
    );
  };
  return (
    <Group justify="space-between" wrap="nowrap">
      <Text size="sm">
        <CodeText>{bodyOf(notification)}</CodeText>
      </Text>
      <Button size="compact-xs" variant="light" onClick={keep}>
        {i18next.t("Keep session")}
      </Button>
    </Group>
  );
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
