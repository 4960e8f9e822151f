import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, Info, TriangleAlert } from "lucide-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import type { Level, InboxNotification } from "@/api/notifications";
import { CodeText } from "@/components/CodeText";
import { RelativeTime } from "@/components/Time";
import { known } from "@/lib/known";
import { bodyOf, logOf, titleOf } from "@/lib/notifications";
import classes from "./Notifications.module.css";

const LOOKS: Record<Level, { icon: typeof Info; tone: string }> = {
  info: { icon: Info, tone: "active" },
  success: { icon: CircleCheck, tone: "good" },
  warning: { icon: TriangleAlert, tone: "warn" },
  error: { icon: CircleAlert, tone: "bad" },
};

interface Props {
  items: readonly InboxNotification[];
  onFollow: (notification: InboxNotification) => void;
}

/** Notifications; each links to its object and is marked as read when it is opened. */
export function NotificationList({ items, onFollow }: Props) {
  const { t } = useTranslation();
  return (
    <ul className={classes.list}>
      {items.map((notification) => {
        const { icon: Icon, tone } = known(LOOKS, notification.level, LOOKS.info);
        const body = bodyOf(notification);
        const log = logOf(notification);
        return (
          <li
            key={notification.id}
            className={classes.item}
            data-unread={notification.read_at === null || undefined}
            data-testid="notification"
            style={{ "--tone": `var(--${tone})` } as CSSProperties}
          >
            <Icon size={17} className={classes.icon} aria-hidden />
            <Link {...linkOf(notification.path)} className={classes.title} onClick={() => onFollow(notification)}>
              {titleOf(notification)}
            </Link>
            {notification.read_at === null ? (
              <span className={classes.dot}>
                <span className="visually-hidden">{t("unread")}</span>
              </span>
            ) : (
              <span />
            )}
            {body !== "" && <p className={classes.text}><CodeText>{body}</CodeText></p>}
            {log.length > 0 && <pre className={classes.log}>{log.join("\n")}</pre>}
            <span className={classes.time}>
              <RelativeTime at={notification.created_at} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}

/** The route and anchor of a notification's path. */
function linkOf(path: string): { to: string; hash?: string } {
  const [to = "/", hash] = path.split("#");
  return hash === undefined ? { to } : { to, hash };
}
