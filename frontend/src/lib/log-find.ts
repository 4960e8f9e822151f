/** Finding things in a log: a text, an expression, and the first line that says what went wrong. */
import { stripAnsi } from "@/lib/ansi";

export interface Wanted {
  text: string;
  /** Whether the text is a regular expression. */
  pattern: boolean;
}

/** What to look for; null while there is nothing, or while the expression is none (yet). */
export function matcher({ text, pattern }: Wanted): RegExp | null {
  if (text === "") return null;
  const source = pattern ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  try {
    return new RegExp(source, "gi");
  } catch {
    return null;
  }
}

/** The indices of the lines in which it is found, upper and lower case alike. */
export function findLines(lines: readonly string[], wanted: RegExp | null, most = 100_000): number[] {
  if (wanted === null) return [];
  const one = new RegExp(wanted.source, "i");
  const found: number[] = [];
  for (let i = 0; i < lines.length && found.length < most; i += 1) {
    if (one.test(stripAnsi(lines[i] ?? ""))) found.push(i);
  }
  return found;
}

/** Pieces of a line, those that match told from the others. */
export function pieces(line: string, wanted: RegExp): { text: string; hit: boolean }[] {
  const found: { text: string; hit: boolean }[] = [];
  let from = 0;
  for (const match of line.matchAll(new RegExp(wanted.source, "gi"))) {
    if (match[0] === "" || found.length > 400) continue;
    if (match.index > from) found.push({ text: line.slice(from, match.index), hit: false });
    found.push({ text: match[0], hit: true });
    from = match.index + match[0].length;
  }
  if (from < line.length || found.length === 0) found.push({ text: line.slice(from), hit: false });
  return found;
}

/** Lines that nothing else than a failure writes. */
const SURE: readonly RegExp[] = [
  /^\s*(?:\[\S+\]:?\s*)?Traceback \(most recent call last\)/,
  /(?:^|[\s\]:])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|\s*$)/,
  /^terminate called after throwing|^Fatal Python error|^thread '.*' panicked|^panic:|^goroutine \d+ \[running\]/,
  /\bSegmentation fault\b|\bcore dumped\b|\bBus error\b|\bIllegal instruction\b|^Aborted\b/,
  /\boom[-_ ]?kill|\bOut of memory\b|\bout of memory\b/i,
  /\bCUDA (?:driver )?error\b|\bNCCL (?:WARN|error|failure)\b.*(?:error|fail)/i,
  /: command not found\s*$|: No such file or directory\s*$|: Permission denied\s*$/,
  /^(?:srun|slurmstepd|sbatch|aitne): (?:error|fatal)\b/,
  /\bDUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)\b/,
];
/** Words that a program may well write and go on. */
const LIKELY: readonly RegExp[] = [
  /(?:^|[\s[(|])(?:ERROR|FATAL|CRITICAL|SEVERE)\b(?!\s*[=:]\s*[\d.]+\s*$)/,
  // "error: 0.12" is a measurement.
  /(?:^|\s)(?:fatal )?error:\s*(?![\d.eE+-]+\b)\S/i,
  /\bfailed with (?:exit )?(?:code|status)\b|\bexited with (?:code|status) [1-9]/i,
];

/** The first line that says what went wrong, or null. */
export function firstError(lines: readonly string[]): number | null {
  let likely: number | null = null;
  for (let i = 0; i < lines.length; i += 1) {
    const line = stripAnsi(lines[i] ?? "");
    if (SURE.some((each) => each.test(line))) return i;
    if (likely === null && LIKELY.some((each) => each.test(line))) likely = i;
  }
  return likely;
}
