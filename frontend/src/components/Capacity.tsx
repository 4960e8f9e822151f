import type { ReactNode } from "react";
import classes from "./Capacity.module.css";
import { useTranslation } from "react-i18next";

interface BarProps {
  used: number;
  total: number;
  label: string;
  thin?: boolean;
}

/** The used share of a capacity. */
export function UsageBar({ used, total, label, thin }: BarProps) {
  const share = total === 0 ? 0 : Math.min(1, used / total);
  return (
    <div
      className={thin ? `${classes.bar ?? ""} ${classes.thin ?? ""}` : classes.bar}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(share * 100)}
    >
      <span className={classes.fill} style={{ width: `${share * 100}%` }} />
    </div>
  );
}

export function CapacityRow({ title, free, ...bar }: { title: string; free: ReactNode } & Omit<BarProps, "label" | "thin">) {
  const { t } = useTranslation();
  return (
    <div className={classes.row}>
      <div className={classes.label}>
        <strong>{title}</strong>
        <span className={`${classes.free ?? ""} tabular`}>{free}</span>
      </div>
      <UsageBar {...bar} label={t("{{title}} in use", { title })} />
    </div>
  );
}
