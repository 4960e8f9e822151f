import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, Info, TriangleAlert } from "lucide-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import type { Level, Told } from "@/api/notifications";
import { RelativeTime } from "@/components/Time";
import { bodyOf, logOf, titleOf } from "@/lib/told";
import classes from "./Told.module.css";

const LOOKS: Record<Level, { icon: typeof Info; tone: string }> = {
  info: { icon: Info, tone: "active" },
  success: { icon: CircleCheck, tone: "good" },
  warning: { icon: TriangleAlert, tone: "warn" },
  error: { icon: CircleAlert, tone: "bad" },
};

interface Props {
  items: readonly Told[];
  onFollow: (told: Told) => void;
}

/** What one was told: each leads to what it is about, and is read then. */
export function ToldList({ items, onFollow }: Props) {
  const { t } = useTranslation();
  return (
    <ul className={classes.list}>
      {items.map((told) => {
        const { icon: Icon, tone } = LOOKS[told.level];
        const body = bodyOf(told);
        const log = logOf(told);
        return (
          <li
            key={told.id}
            className={classes.item}
            data-unread={told.read_at === null || undefined}
            data-testid="notification"
            style={{ "--tone": `var(--${tone})` } as CSSProperties}
          >
            <Icon size={17} className={classes.icon} aria-hidden />
            <Link {...leadsTo(told.path)} className={classes.title} onClick={() => onFollow(told)}>
              {titleOf(told)}
            </Link>
            {told.read_at === null ? (
              <span className={classes.dot}>
                <span className="visually-hidden">{t("not read")}</span>
              </span>
            ) : (
              <span />
            )}
            {body !== "" && <p className={classes.text}>{body}</p>}
            {log.length > 0 && <pre className={classes.log}>{log.join("\n")}</pre>}
            <span className={classes.time}>
              <RelativeTime at={told.created_at} />
            </span>
          </li>
        );
      })}
    </ul>
  );
}

/** The platform names its own pages, some with a place on them. */
function leadsTo(path: string): { to: string; hash?: string } {
  const [to = "/", hash] = path.split("#");
  return hash === undefined ? { to } : { to, hash };
}
