/** What the API says when something is wrong (RFC 9457), as one error class. */
import i18next from "i18next";
import type { FieldProblem } from "@/api/types";
import { PROBLEM_TITLES, translateServerText } from "@/i18n/server";
import { withoutMarks } from "@/lib/without-marks";

export class ApiProblem extends Error {
  constructor(
    /** The HTTP status; 0 when the platform did not answer at all. */
    readonly status: number,
    readonly code: string,
    readonly title: string,
    detail: string,
    readonly problems: readonly FieldProblem[] = [],
    readonly retryAfterS: number | null = null,
    /** Language of the message where it is not translated. */
    readonly lang?: "en",
  ) {
    super(detail);
    this.name = "ApiProblem";
  }

  get unreachable(): boolean {
    return this.status === 0 || this.status >= 502;
  }
}

/** An answer that is not a success -> the problem it carries, whatever its body is. */
export function problemFrom(status: number, body: unknown, headers: Headers): ApiProblem {
  const record = isRecord(body) ? body : {};
  const text = (key: string, fallback: string) => {
    const value = record[key];
    return typeof value === "string" && value !== "" ? value : fallback;
  };
  const retry = Number(headers.get("retry-after") ?? NaN);
  const code = text("code", status === 0 ? "unreachable" : `http_${status}`);
  const title = PROBLEM_TITLES[code];
  const detail = text("detail", "");
  const known: { text: string; lang?: "en" } = detail === "" ? { text: text("title", defaultDetail(status)) } : translateServerText(detail);
  return new ApiProblem(
    status,
    code,
    title === undefined ? text("title", defaultTitle(status)) : i18next.t(title),
    known.text,
    fieldProblems(record.problems),
    Number.isFinite(retry) ? Math.max(0, retry) : null,
    known.lang,
  );
}

export function unreachable(): ApiProblem {
  return new ApiProblem(
    0,
    "unreachable",
    i18next.t("The platform does not answer"),
    i18next.t("The platform does not answer. Your jobs and sessions are not affected; this page retries automatically."),
  );
}

/** The sentence to show for anything that was thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof Error && error.message !== "") return error.message;
  return i18next.t("Something went wrong. Reload the page and try again.");
}

/** The language of that sentence where it is not translated. */
export function langOf(error: unknown): "en" | undefined {
  return error instanceof ApiProblem ? error.lang : undefined;
}

function fieldProblems(value: unknown): FieldProblem[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isRecord).map((entry) => ({
    field: typeof entry.field === "string" ? entry.field : "",
    message: typeof entry.message === "string" ? withoutMarks(translateServerText(entry.message).text) : i18next.t("Not accepted."),
    value: typeof entry.value === "string" ? entry.value : null,
    allowed: typeof entry.allowed === "string" ? entry.allowed : null,
  }));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function defaultTitle(status: number): string {
  if (status === 0 || status >= 502) return i18next.t("The platform does not answer");
  if (status === 404) return i18next.t("Not found");
  if (status === 403) return i18next.t("Not allowed");
  return status >= 500 ? i18next.t("Internal error") : i18next.t("Not accepted");
}

function defaultDetail(status: number): string {
  if (status >= 502) return i18next.t("The platform is starting or restarting. This page retries automatically.");
  if (status >= 500) return i18next.t("An internal error occurred. Try again; if it persists, contact an administrator.");
  if (status === 404) return i18next.t("Not found, or you do not have access.");
  return i18next.t("The platform did not accept this (HTTP {{status}}).", { status });
}
