/** Search in a log: by text, by regular expression, and for the first error. */
import { stripAnsi } from "./ansi";

export interface SearchTerm {
  text: string;
  /** Whether the text is a regular expression. */
  pattern: boolean;
}

/** The regular expression of a search; null for an empty or invalid one. */
export function matcher({ text, pattern }: SearchTerm): RegExp | null {
  if (text === "") return null;
  const source = pattern ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  try {
    return new RegExp(source, "gi");
  } catch {
    return null;
  }
}

/** The indices of the matching lines, case-insensitive. */
export function findLines(lines: readonly string[], pattern: RegExp | null, limit = 100_000): number[] {
  if (pattern === null) return [];
  const test = new RegExp(pattern.source, "i");
  const indices: number[] = [];
  for (let i = 0; i < lines.length && indices.length < limit; i += 1) {
    if (test.test(stripAnsi(lines[i] ?? ""))) indices.push(i);
  }
  return indices;
}

/** The pieces of a line; `hit` marks the matching ones. */
export function pieces(line: string, pattern: RegExp): { text: string; hit: boolean }[] {
  const result: { text: string; hit: boolean }[] = [];
  let from = 0;
  for (const match of line.matchAll(new RegExp(pattern.source, "gi"))) {
    if (match[0] === "" || result.length > 400) continue;
    if (match.index > from) result.push({ text: line.slice(from, match.index), hit: false });
    result.push({ text: match[0], hit: true });
    from = match.index + match[0].length;
  }
  if (from < line.length || result.length === 0) result.push({ text: line.slice(from), hit: false });
  return result;
}

/** Lines that only failures write. */
const CERTAIN: readonly RegExp[] = [
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
/** Lines that can also occur without a failure. */
const LIKELY: readonly RegExp[] = [
  /(?:^|[\s[(|])(?:ERROR|FATAL|CRITICAL|SEVERE)\b(?!\s*[=:]\s*[\d.]+\s*$)/,
  // "error: 0.12" is a measurement.
  /(?:^|\s)(?:fatal )?error:\s*(?![\d.eE+-]+\b)\S/i,
  /\bfailed with (?:exit )?(?:code|status)\b|\bexited with (?:code|status) [1-9]/i,
];

/** The index of the last line with this text, which may be shortened by an ellipsis; null without one. */
export function lastLineWith(lines: readonly string[], text: string): number | null {
  const wanted = text.replace(/…$/, "").trim();
  if (wanted === "") return null;
  for (let i = lines.length - 1; i >= 0; i -= 1) {
    if (stripAnsi(lines[i] ?? "").includes(wanted)) return i;
  }
  return null;
}

/** The index of the first error line, or null. */
export function firstError(lines: readonly string[]): number | null {
  let likely: number | null = null;
  for (let i = 0; i < lines.length; i += 1) {
    const line = stripAnsi(lines[i] ?? "");
    if (CERTAIN.some((pattern) => pattern.test(line))) return i;
    if (likely === null && LIKELY.some((pattern) => pattern.test(line))) likely = i;
  }
  return likely;
}
