import { useMemo } from "react";
import classes from "./SnapshotPanel.module.css";

/** Lines beyond this are not rendered. */
const MAX_LINES = 3_000;

/** A unified diff with coloured lines. */
export function Diff({ text, label }: { text: string; label: string }) {
  const lines = useMemo(() => text.split("\n", MAX_LINES), [text]);
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <pre className={classes.diff} tabIndex={0} aria-label={label} data-testid="diff">
      {lines.map((line, index) => (
        <span key={index} className={classOf(line)}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

function classOf(line: string): string | undefined {
  if (line.startsWith("@@") || line.startsWith("diff ")) return classes.place;
  if (line.startsWith("+") && !line.startsWith("+++")) return classes.added;
  if (line.startsWith("-") && !line.startsWith("---")) return classes.removed;
  return undefined;
}
