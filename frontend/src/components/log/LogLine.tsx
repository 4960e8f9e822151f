import { type CSSProperties, memo } from "react";
import { ansiPieces, stripAnsi } from "@/lib/ansi";
import { pieces } from "@/lib/log-find";
import classes from "@/components/LogView.module.css";

interface Props {
  line: string;
  /** Set where the line has a hit. */
  wanted: RegExp | null;
  /** The hit, or the error, that was stepped to. */
  now: boolean;
  style?: CSSProperties;
  wrapped?: boolean;
}

export const LogLine = memo(
  function LogLine({ line, wanted, now, style, wrapped }: Props) {
    const look = [classes.line, wrapped && classes.wrapped, now ? classes.hitNow : wanted !== null && classes.hit].filter(Boolean).join(" ");
    return (
      <div className={look} style={style}>
        {wanted === null ? coloured(line) : marked(stripAnsi(line), wanted)}
      </div>
    );
  },
  (old, now) =>
    old.line === now.line && old.wanted === now.wanted && old.now === now.now && old.wrapped === now.wrapped && old.style?.top === now.style?.top,
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

function marked(line: string, wanted: RegExp) {
  return pieces(line, wanted).map((piece, index) => (piece.hit ? <mark key={index}>{piece.text}</mark> : piece.text));
}
