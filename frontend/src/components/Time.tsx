import { Tooltip } from "@mantine/core";
import { useNow, useSlowNow } from "@/hooks/use-now";
import { formatAbsolute, formatRelative, formatTicking, secondsBetween } from "@/lib/time";

/** "5 min ago"; the exact local time on hover, on focus and for screen readers. */
export function RelativeTime({ at }: { at: string }) {
  const now = useSlowNow();
  const date = new Date(at);
  return (
    <Tooltip label={formatAbsolute(date)}>
      <time dateTime={at}>{formatRelative(date, now)}</time>
    </Tooltip>
  );
}

/** Counts up since a moment. */
export function Elapsed({ since }: { since: string }) {
  const now = useNow();
  return <span className="tabular">{formatTicking(secondsBetween(since, null, now))}</span>;
}
