/**
 * Terminal colours in a log line -> pieces with a class name. Only the 16 named colours, bold and dim
 * are drawn; every other escape sequence is dropped, so that a log can only show text.
 */

export interface Piece {
  text: string;
  /** Space-separated class names; empty for plain text. */
  style: string;
}

/* eslint-disable no-control-regex -- control characters are what this file is about */
const SEQUENCE =
  /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]+[0-~]|\x1b[0-~]?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;
/* eslint-enable no-control-regex */

interface Pen {
  colour: string;
  bold: boolean;
  dim: boolean;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** The line without any escape sequence or control character but tabs. */
export function stripAnsi(line: string): string {
  return line.includes("\x1b") || /[^\t\x20-\uffff]/.test(line) ? line.replace(SEQUENCE, "") : line;
}

/** Pieces of one line. The pen is reset on each line: an unclosed colour does not affect the next one. */
export function ansiPieces(line: string): Piece[] {
  if (!line.includes("\x1b")) return [{ text: stripAnsi(line), style: "" }];
  const pieces: Piece[] = [];
  const pen: Pen = { colour: "", bold: false, dim: false };
  let from = 0;
  const push = (text: string) => {
    if (text !== "") pieces.push({ text, style: styleOf(pen) });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    push(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[1] !== undefined) apply(pen, match[1]);
  }
  push(line.slice(from));
  return pieces;
}

function styleOf(pen: Pen): string {
  return [pen.colour, pen.bold ? "ansi-bold" : "", pen.dim ? "ansi-dim" : ""].filter(Boolean).join(" ");
}

function apply(pen: Pen, codes: string): void {
  const list = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < list.length; i += 1) {
    const code = list[i] ?? 0;
    if (code === 0) Object.assign(pen, { colour: "", bold: false, dim: false });
    else if (code === 1) pen.bold = true;
    else if (code === 2) pen.dim = true;
    else if (code === 22) Object.assign(pen, { bold: false, dim: false });
    else if (code === 39) pen.colour = "";
    else if (code >= 30 && code <= 37) pen.colour = named(code - 30);
    else if (code >= 90 && code <= 97) pen.colour = named(code - 90);
    else if (code === 38 || code === 48) {
      // 38;5;n and 38;2;r;g;b: the palette's first 16 colours have names, others keep the text's colour.
      if (list[i + 1] === 5) {
        const index = list[i + 2] ?? 0;
        if (code === 38) pen.colour = index < 16 ? named(index % 8) : "";
        i += 2;
      } else if (list[i + 1] === 2) {
        if (code === 38) pen.colour = "";
        i += 4;
      }
    }
  }
}

function named(index: number): string {
  return `ansi-${NAMES[index] ?? "white"}`;
}
