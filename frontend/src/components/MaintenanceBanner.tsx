import { useQuery } from "@tanstack/react-query";
import { Construction } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Maintenance, maintenanceQuery } from "@/api/admin";
import { useSlowNow } from "@/hooks/use-now";
import { formatClock } from "@/lib/time";
import classes from "./Banner.module.css";

/** Says that new work waits, or when it will. */
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
  const says =
    phase === "on"
      ? until === null
        ? t("Maintenance: new work is kept and begins when it is over. What runs goes on.")
        : t("Maintenance until {{until}}: new work is kept and begins then. What runs goes on.", { until })
      : until === null
        ? t("Maintenance begins {{from}}: from then on new work is kept until it is over.", { from })
        : t("Maintenance from {{from}} to {{until}}: new work is kept until then.", { from, until });
  return (
    <div className={classes.banner} data-tone={phase === "on" ? "warn" : "active"} role="status" data-testid="maintenance-banner">
      <Construction size={17} aria-hidden className={classes.icon} />
      <p className={classes.text}>
        {says} {message}
      </p>
    </div>
  );
}
