import { type CSSProperties, memo } from "react";
import { ansiPieces, stripAnsi } from "./ansi";
import { pieces } from "./log-find";
import classes from "./LogView.module.css";

interface Props {
  line: string;
  /** The search expression if the line matches, else null. */
  expression: RegExp | null;
  /** Whether the line is the current match or error. */
  current: boolean;
  style?: CSSProperties;
  wrapped?: boolean;
}

export const LogLine = memo(
  function LogLine({ line, expression, current, style, wrapped }: Props) {
    const look = [classes.line, wrapped && classes.wrapped, current ? classes.currentHit : expression !== null && classes.hit].filter(Boolean).join(" ");
    return (
      <div className={look} style={style}>
        {expression === null ? coloured(line) : highlighted(stripAnsi(line), expression)}
      </div>
    );
  },
  (old, next) =>
    old.line === next.line && old.expression === next.expression && old.current === next.current && old.wrapped === next.wrapped && old.style?.top === next.style?.top,
);

function coloured(line: string) {
  return ansiPieces(line).map((piece, index) =>
    piece.style === "" ? (
      piece.text
    ) : (
      <span key={index} className={piece.style}>
        {piece.text}
      </span>
    ),
  );
}

function highlighted(line: string, expression: RegExp) {
  return pieces(line, expression).map((piece, index) => (piece.hit ? <mark key={index}>{piece.text}</mark> : piece.text));
}
