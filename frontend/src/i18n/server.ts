/**
 * Messages of the platform. They are English; those in `server.json` are translated here, any other text is shown
 * unchanged and marked as English, also where a problem within it (`{{problem}}`) is not translated.
 */
import i18next from "i18next";
import type { JobState } from "@/api/types";
import { locale } from "@/i18n/locale";
import { msg } from "@/i18n/msg";
import { lookOf } from "@/lib/states";
import { unbroken, withUnit } from "@/lib/units";

interface Sentence {
  key: string;
  pattern: RegExp;
}

let sentences: readonly Sentence[] = [];

/** Called with `server.json` when a language other than English is loaded. */
export function setServerSentences(keys: readonly string[]): void {
  // First those with a problem, which is a sentence of its own: what else begins with a placeholder matches them, too.
  const sorted = [...keys].sort((a, b) => Number(b.includes("{{problem}}")) - Number(a.includes("{{problem}}")));
  sentences = sorted.map((key) => ({ key, pattern: patternOf(key) }));
}

/** What placeholders stand for; others stand for any text. */
const VALUES: Partial<Record<string, string>> = { state: "[A-Z_]+", file: "\\S+|scontrol show topology" };

function patternOf(key: string): RegExp {
  const parts = key.replace(/\.$/, "").split(/\{\{(\w+)\}\}/);
  const text = parts.map((part, index) => (index % 2 === 1 ? `(?<${part}>${VALUES[part] ?? ".+?"})` : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  // With or without the full stop.
  return new RegExp(`^${text.join("")}\\.?$`);
}

/** A message of the platform in the selected language; `lang` where it is not translated. */
export function translateServerText(text: string): { text: string; lang?: "en" } {
  if (i18next.language === "en") return { text: unbroken(text) };
  for (const { key, pattern } of sentences) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const { problem } = match.groups ?? {};
    if (problem !== undefined && translateServerText(problem).lang !== undefined) continue;
    const groups = Object.entries(match.groups ?? {}).map(([name, value]) => [name, valueOf(name, value)]);
    return { text: unbroken(i18next.t(key, Object.fromEntries(groups) as Record<string, string>)) };
  }
  return { text: unbroken(text), lang: "en" };
}

/** Numbers of tasks in a state. */
const TASK_COUNTS: Partial<Record<string, (count: number) => string>> = {
  "pending submit": pending, submitting: pending, uncertain: pending,
  queued: (count) => i18next.t("{{count}} queued", { count }),
  starting: (count) => i18next.t("{{count}} starting", { count }),
  running: (count) => i18next.t("{{count}} running", { count }),
  ready: (count) => i18next.t("{{count}} running", { count }),
  suspended: (count) => i18next.t("{{count}} suspended", { count }),
  completing: (count) => i18next.t("{{count}} finishing", { count }),
  completed: (count) => i18next.t("{{count}} completed", { count }),
  failed: (count) => i18next.t("{{count}} failed", { count }),
  cancelled: (count) => i18next.t("{{count}} cancelled", { count }),
  "timed out": (count) => i18next.t("{{count}} timed out", { count }),
  "out of memory": (count) => i18next.t("{{count}} out of memory", { count }),
  "node failed": (count) => i18next.t("{{count}} with a failed node", { count }),
  preempted: (count) => i18next.t("{{count}} preempted", { count }),
  lost: (count) => i18next.t("{{count}} lost", { count }),
  unknown: (count) => i18next.t("{{count}} in an unknown state", { count }),
};

function pending(count: number): string {
  return i18next.t("{{count}} being submitted", { count });
}

const PROJECT_STATES: Partial<Record<string, string>> = { requested: msg("Requested"), active: msg("Active"), expired: msg("Expired"), closed: msg("Closed") };

/** What a part of a topology.yaml lacks. */
const EXPECTED: readonly string[] = [msg("a list"), msg("keys with values")];

/**
 * The value of a placeholder: the label of a state, "4 running, 8 queued", a message of a job, a problem of a file, a
 * line of a file, or amounts.
 */
function valueOf(name: string, value: string): string {
  if (name === "state") return lookOf(value as JobState).label;
  if (name === "project_state") return i18next.t(PROJECT_STATES[value] ?? value);
  // A metric, whose values other parts of the page write so too.
  if ((name === "value" || name === "wanted") && /^-?\d+\.\d+$/.test(value)) return Number(value).toLocaleString(locale(), { maximumSignificantDigits: 6 });
  if (name === "message" || name === "problem") return translateServerText(value).text;
  if (name === "at") return value.replace(/^(.+), line (\d+)$/, (_, path: string, line: string) => i18next.t("{{path}}, line {{line}}", { path, line }));
  if (name === "expected") return i18next.t(EXPECTED.find((text) => text === value) ?? value);
  if (name === "states") return value.replace(/(\d+) ([a-z ]+)/g, (whole, count: string, state: string) => TASK_COUNTS[state]?.(Number(count)) ?? whole);
  return amounts(value);
}

/** Translates amounts in a message: "16 CPUs, 1.5 GiB and 4 GPUs" or "3 of 4". */
function amounts(value: string): string {
  return value
    .replace(/\b(\d+\.\d) ([KMGTP]iB)\b/g, (_, number: string, unit: string) => withUnit(Number(number).toLocaleString(locale()), unit))
    .replace(/(\d+(?: [KMGTP]?i?B)?) of (\d[\d.,]*(?: [KMGTP]?i?B)?)/g, (_, used: string, total: string) => i18next.t("{{used}} of {{total}}", { used, total }))
    .replace(/(\d\w*|\w+s|[KMGTP]?i?B) and (\d)/g, (_, before: string, after: string) => `${before} ${i18next.t("and")} ${after}`);
}

/** Titles of the API's problems by their code; the problem's detail describes the error. */
export const PROBLEM_TITLES: Partial<Record<string, string>> = {
  invalid_input: msg("Invalid input"),
  bad_request: msg("Invalid input"),
  too_large: msg("Too large"),
  not_authenticated: msg("Login required"),
  not_allowed: msg("Not allowed"),
  not_found: msg("Not found"),
  conflict: msg("Conflict"),
  changed_meanwhile: msg("Changed in the meantime"),
  rate_limited: msg("Too many requests"),
  scheduler_rejected: msg("Rejected by the scheduler"),
  scheduler_unavailable: msg("Scheduler not responding"),
  unavailable: msg("Platform not responding"),
  not_supported: msg("Not supported on this platform"),
  internal: msg("Internal error"),
};
