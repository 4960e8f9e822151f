import { useQuery } from "@tanstack/react-query";
import { Construction } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Maintenance, maintenanceQuery } from "@/api/admin";
import { useSlowNow } from "@/hooks/use-now";
import { formatClock } from "@/lib/time";
import { LinkedText } from "./LinkedText";
import classes from "./Banner.module.css";

/** Shows a current or announced maintenance: new jobs are held. */
export function MaintenanceBanner() {
  const { data } = useQuery(maintenanceQuery);
  if (data === undefined || data.phase === "off") return null;
  return (
    <div className={classes.stack}>
      <Line maintenance={data} />
    </div>
  );
}

function Line({ maintenance }: { maintenance: Maintenance }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  const { phase, starts_at, ends_at, message } = maintenance;
  const from = starts_at === null ? "" : formatClock(new Date(starts_at), now);
  const until = ends_at === null ? null : formatClock(new Date(ends_at), now);
  const text =
    phase === "on"
      ? until === null
        ? t("Maintenance in progress. New jobs are held until it ends; running jobs continue.")
        : t("Maintenance until {{until}}. New jobs are held until then; running jobs continue.", { until })
      : until === null
        ? t("Maintenance from {{from}}. New jobs are held until it ends.", { from })
        : t("Maintenance from {{from}} to {{until}}. New jobs are held during this time.", { from, until });
  return (
    <div className={classes.banner} data-tone={phase === "on" ? "warn" : "active"} role="status" data-testid="maintenance-banner">
      <Construction size={17} aria-hidden className={classes.icon} />
      <p className={classes.text}>
        {text} <LinkedText>{message}</LinkedText>
      </p>
    </div>
  );
}
