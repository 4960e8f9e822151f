import type { CSSProperties } from "react";
import type { Tone } from "@/lib/states";
import classes from "./StateBadge.module.css";

interface Props {
  tone: Tone;
  children: string;
  /** Whether a dot precedes the text: for a state rather than a property. */
  dot?: boolean;
}

/** A badge in one of the portal's tones. */
export function ToneBadge({ tone, children, dot }: Props) {
  return (
    <span className={classes.badge} style={{ "--tone": `var(--${tone})`, "--tone-soft": `var(--${tone}-soft)` } as CSSProperties}>
      {dot && <span className={classes.dot} />}
      {children}
    </span>
  );
}
