import type { CSSProperties } from "react";
import type { Job } from "@/api/types";
import { lookOf } from "@/lib/states";
import classes from "./StateBadge.module.css";

interface Props {
  job: Pick<Job, "state" | "type" | "cancel_requested">;
  large?: boolean;
  testId?: string;
}

export function StateBadge({ job, large, testId }: Props) {
  const look = lookOf(job.state, {
    session: job.type === "session",
    cancelRequested: job.cancel_requested,
  });
  return (
    <span
      className={large ? `${classes.badge} ${classes.large}` : classes.badge}
      style={{ "--tone": `var(--${look.tone})`, "--tone-soft": `var(--${look.tone}-soft)` } as CSSProperties}
      data-testid={testId}
      data-state={job.state}
    >
      <span className={look.pulse ? `${classes.dot} ${classes.pulse}` : classes.dot} />
      {look.label}
    </span>
  );
}
