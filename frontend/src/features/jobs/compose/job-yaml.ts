/**
 * A job file as text that a form and an editor change together. The text is the source of truth: the form reads it
 * and writes single fields into it, so comments, order and unknown fields are preserved.
 */
import i18next from "i18next";
import { Document, isMap, isScalar, LineCounter, parseDocument, type YAMLError } from "yaml";
import { msg } from "@/i18n/msg";

export type Path = readonly (string | number)[];

export interface TextProblem {
  /** From 1. */
  line: number;
  message: string;
}

export interface ParsedJob {
  /** The parsed value; null while the text is not a YAML mapping. */
  value: Record<string, unknown> | null;
  problems: TextProblem[];
}

const OPTIONS = { version: "1.2", merge: true, prettyErrors: false, uniqueKeys: true } as const;

function parse(text: string) {
  const lines = new LineCounter();
  return { lines, document: parseDocument(text, { ...OPTIONS, lineCounter: lines }) };
}

/** What the errors of the parser, which are in English for programmers, mean in a job file. */
const SYNTAX: Partial<Record<YAMLError["code"], string>> = {
  BAD_INDENT: msg("The indentation does not fit the lines above."),
  BAD_SCALAR_START: msg("A text that begins with this character needs quotes."),
  BLOCK_AS_IMPLICIT_KEY: msg("A text with a colon and a blank needs quotes."),
  DUPLICATE_KEY: msg("This field is given twice."),
  MISSING_CHAR: msg("A quote, a bracket or a comma is missing."),
  MULTILINE_IMPLICIT_KEY: msg("This is no `name: value`: the colon is missing, or the indentation is wrong."),
  TAB_AS_INDENT: msg("Lines are indented by blanks, not by tabs."),
};

function wordsOf({ code, message }: YAMLError): string {
  const words = SYNTAX[code];
  return words === undefined ? message : i18next.t(words);
}

/** Parses a job file. `value` is null if there are problems; an empty file gives `{}`. */
export function parseJob(text: string): ParsedJob {
  const { document, lines } = parse(text);
  const problems = document.errors.map((error) => ({ line: lines.linePos(error.pos[0]).line, message: wordsOf(error) }));
  if (problems.length > 0) return { value: null, problems };
  if (document.contents === null) return { value: {}, problems: [] };
  if (!isMap(document.contents)) return { value: null, problems: [{ line: 1, message: i18next.t("A job file consists of fields such as `name: value`.") }] };
  keepEnvTexts(document.get("env"));
  try {
    return { value: document.toJS({ maxAliasCount: 100 }) as Record<string, unknown>, problems: [] };
  } catch (error) {
    return { value: null, problems: [{ line: 1, message: error instanceof Error ? error.message : String(error) }] };
  }
}

/**
 * The parsed value as the API takes it: JSON has no infinite numbers and no NaN, and JSON.stringify would make null of
 * them, so they are encoded.
 */
export function jobOf(value: Record<string, unknown>): Record<string, unknown> {
  return encoded(value) as Record<string, unknown>;
}

function encoded(value: unknown): unknown {
  if (typeof value === "number" && !Number.isFinite(value)) return { $float: Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf" };
  if (Array.isArray(value)) return value.map(encoded);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, encoded(part)]));
}

/** Keeps numbers and truth values of `env` as they are written: 1.10 is not 1.1 there. */
function keepEnvTexts(env: unknown) {
  if (!isMap(env)) return;
  for (const { value } of env.items) {
    if (isScalar(value) && (typeof value.value === "number" || typeof value.value === "boolean")) value.value = value.source;
  }
}

/** The text with one field set; `undefined` or an empty text, list or mapping removes it and emptied parents. */
export function setField(text: string, path: Path, value: unknown): string {
  const { document } = parse(text);
  if (document.errors.length > 0) return text;
  const target = isMap(document.contents) ? document : new Document({}, OPTIONS);
  if (isEmpty(value)) {
    for (let length = path.length; length > 0; length -= 1) {
      const part = path.slice(0, length);
      const current = target.getIn(part);
      if (length === path.length ? current !== undefined : isMap(current) && current.items.length === 0) target.deleteIn(part);
      else if (length < path.length) break;
    }
  } else {
    // A scalar in the path, such as `resources:` without a value, is replaced by a mapping.
    for (let length = 1; length < path.length; length += 1) {
      const part = path.slice(0, length);
      if (target.hasIn(part) && !isMap(target.getIn(part)) && typeof path[length] === "string") target.setIn(part, target.createNode({}));
    }
    const old = target.getIn(path, true);
    const node = target.createNode(value);
    // A comment after the old value belongs to the field.
    if (isCommented(old) && typeof value !== "object") Object.assign(node, { comment: old.comment });
    target.setIn(path, node);
  }
  if (isMap(target.contents) && target.contents.items.length === 0) return target.commentBefore ? target.toString({ lineWidth: 0 }).replace(/\{\}\n?$/, "") : "";
  return target.toString({ lineWidth: 0 });
}

function isCommented(node: unknown): node is { comment: string } {
  return typeof node === "object" && node !== null && "comment" in node && typeof node.comment === "string";
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** The line of a field named in an API problem, or of its nearest parent; 1 where there is none. */
export function lineOfField(text: string, field: string): number {
  const { document, lines } = parse(text);
  const parts = field.replace(/^body\.?/, "").split(".").filter((part) => part !== "").map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  for (let length = parts.length; length > 0; length -= 1) {
    const path = parts.slice(0, length);
    const parent = length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
    if (isMap(parent)) {
      const pair = parent.items.find((item) => String((item.key as { value?: unknown } | null)?.value) === String(path.at(-1)));
      const start = (pair?.key as { range?: [number, number, number] } | undefined)?.range?.[0];
      if (start !== undefined) return lines.linePos(start).line;
    } else {
      const node = document.getIn(path, true) as { range?: [number, number, number] } | undefined;
      if (node?.range) return lines.linePos(node.range[0]).line;
    }
  }
  return 1;
}

/** `FOO=1` lines <-> a mapping; lines without `=` are ignored. */
export function envText(env: unknown): string {
  if (typeof env !== "object" || env === null) return "";
  return Object.entries(env).map(([name, value]) => `${name}=${String(value)}`).join("\n");
}

export function envOf(text: string): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) variables[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return variables;
}

/** Whether a text is a script for sbatch rather than a job file. */
export function isBatchScript(text: string): boolean {
  return text.startsWith("#!") || /^#SBATCH\s/m.test(text);
}

/** The text as a number where it is one; other texts are unchanged, so that the platform reports them. */
export function numberOrText(text: string): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^\d{1,9}$/.test(trimmed) ? Number(trimmed) : trimmed;
}
