import { Button, Group, Text } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import i18next from "i18next";
import { Bell, CircleAlert, CircleCheck, Moon, TriangleAlert } from "lucide-react";
import { keepSession, type Level, type Told } from "@/api/notifications";
import { notifyDone, notifyProblem } from "@/components/notify";
import { bodyOf, titleOf } from "@/lib/told";

export type News = Pick<Told, "id" | "kind" | "level" | "title" | "text" | "data" | "job_id">;

const LOOKS: Record<Level, { color: string; icon: typeof Bell }> = {
  info: { color: "indigo", icon: Bell },
  success: { color: "moon", icon: CircleCheck },
  warning: { color: "orange", icon: TriangleAlert },
  error: { color: "red", icon: CircleAlert },
};

/** On the page, and by the browser while the page is out of sight and its user has allowed that. */
export function notifyTold(news: News): void {
  const title = titleOf(news);
  const tag = `told-${news.id}`;
  // The end of a session is counted down where it is shown, with a button for more time.
  if (news.kind !== "session_expiring") {
    const { color, icon: Icon } = LOOKS[news.level];
    const idle = news.kind === "session_idle";
    notifications.show({
      id: tag,
      title,
      color,
      icon: idle ? <Moon size={17} /> : <Icon size={17} />,
      autoClose: idle ? 60_000 : 8_000,
      role: "status",
      "data-testid": "told",
      message: idle && news.job_id !== null ? <Keep news={news} id={news.job_id} tag={tag} /> : firstLine(bodyOf(news)),
    });
  }
  if (document.hidden && typeof Notification !== "undefined" && Notification.permission === "granted") {
    new Notification(title, { body: firstLine(bodyOf(news)), tag });
  }
}

function Keep({ news, id, tag }: { news: News; id: string; tag: string }) {
  const keep = () => {
    notifications.hide(tag);
    const name = typeof news.data.name === "string" ? news.data.name : "";
    keepSession(id).then(
      () => notifyDone(i18next.t("{{name}} stays.", { name })),
      (error: unknown) => notifyProblem(i18next.t("{{name}} was not kept", { name }), error),
    );
  };
  return (
    <Group justify="space-between" wrap="nowrap">
      <Text size="sm">{bodyOf(news)}</Text>
      <Button size="compact-xs" variant="light" onClick={keep}>
        {i18next.t("Keep it")}
      </Button>
    </Group>
  );
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
