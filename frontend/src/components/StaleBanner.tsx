import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { useNow } from "@/hooks/use-now";
import { formatClock } from "@/lib/time";
import { useLiveState } from "@/live/LiveProvider";

/** Shorter interruptions are not shown. */
const DELAY_MS = 3_000;

export function StaleBanner({ className }: { className: string }) {
  const { status, asOf } = useLiveState();
  const [shown, setShown] = useState(false);
  const lost = status !== "live";
  useEffect(() => {
    if (!lost) return undefined;
    const timer = window.setTimeout(() => setShown(true), DELAY_MS);
    return () => {
      window.clearTimeout(timer);
      setShown(false);
    };
  }, [lost]);
  return <div role="status">{lost && shown && <Banner className={className} asOf={asOf} />}</div>;
}

function Banner({ className, asOf }: { className: string; asOf: number }) {
  const { t } = useTranslation();
  const now = useNow();
  return (
    <div className={className} data-testid="stale-banner">
      <WifiOff size={15} aria-hidden />
      {t("Reconnecting to the platform. Data as of {{time}}; jobs and sessions continue.", { time: formatClock(new Date(asOf), now) })}
    </div>
  );
}
