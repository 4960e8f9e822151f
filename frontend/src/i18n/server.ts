/**
 * What the platform says. It speaks English; the sentences it is known to say (`server.json`) are translated here, and
 * anything else is shown as it came and marked as English.
 */
import i18next from "i18next";
import { msg } from "@/i18n/msg";

interface Sentence {
  key: string;
  pattern: RegExp;
}

let sentences: readonly Sentence[] = [];

/** Called with `server.json` once there is a language for it. */
export function learnSentences(keys: readonly string[]): void {
  sentences = keys.map((key) => ({ key, pattern: patternOf(key) }));
}

function patternOf(key: string): RegExp {
  const parts = key.replace(/\.$/, "").split(/\{\{(\w+)\}\}/);
  const text = parts.map((part, index) => (index % 2 === 1 ? `(?<${part}>.+?)` : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  // With its full stop or without.
  return new RegExp(`^${text.join("")}\\.?$`);
}

/** A sentence of the platform in the chosen language; `lang` where it stayed English. */
export function said(text: string): { text: string; lang?: "en" } {
  if (i18next.language === "en") return { text };
  for (const { key, pattern } of sentences) {
    const found = pattern.exec(text);
    if (found === null) continue;
    const groups = Object.entries(found.groups ?? {}).map(([name, value]) => [name, amounts(value)]);
    return { text: i18next.t(key, Object.fromEntries(groups) as Record<string, string>) };
  }
  return { text, lang: "en" };
}

/** How far tasks are, after their number. */
const TASKS: Partial<Record<string, string>> = {
  queued: msg("queued"), running: msg("running"), completed: msg("completed"), failed: msg("failed"), cancelled: msg("cancelled"),
};

/** What stands in a sentence as "16 CPUs, 60G and 4 GPUs", "3 of 4" or "4 running, 8 queued". */
function amounts(value: string): string {
  return value
    .replace(/(\d+) of (\d+)/g, (_, used: string, total: string) => i18next.t("{{used}} of {{total}}", { used, total }))
    .replace(/\b(queued|running|completed|failed|cancelled)\b/g, (state) => i18next.t(TASKS[state] ?? state))
    .replace(/(\d\w*|\w+s) and (\d)/g, (_, before: string, after: string) => `${before} ${i18next.t("and")} ${after}`);
}

/** Titles of the API's problems by their code; what is wrong exactly says its detail. */
export const PROBLEM_TITLES: Partial<Record<string, string>> = {
  invalid_input: msg("Check what was entered"),
  bad_request: msg("Check what was entered"),
  too_large: msg("Too large"),
  not_authenticated: msg("Log in first"),
  not_allowed: msg("Not allowed"),
  not_found: msg("Not found"),
  conflict: msg("It does not fit with what is there"),
  changed_meanwhile: msg("It was changed meanwhile"),
  rate_limited: msg("Too many requests"),
  scheduler_rejected: msg("The scheduler refused it"),
  scheduler_unavailable: msg("The scheduler does not answer"),
  unavailable: msg("The platform does not answer"),
  not_supported: msg("Not possible on this platform"),
  internal: msg("The platform made a mistake"),
};
