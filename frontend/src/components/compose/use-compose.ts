import { useDebouncedValue, useLocalStorage } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";
import { launch } from "@/api/actions";
import { ApiProblem } from "@/api/problem";
import { planQuery } from "@/api/queries";
import type { FieldProblem, Job, JobFile } from "@/api/types";
import { uuid } from "@/lib/id";
import { lineOfField, parseJob, type TextProblem } from "@/lib/job-yaml";

const PLAN_DELAY_MS = 400;
/** So that a page that is left, or a browser that dies, costs nobody their text; and each person sees their own. */
const draftOf = (user: string) => `aitne-compose-draft-${user}`;

/** The text, what it says, and what the platform thinks of it. */
export function useCompose(user: string, onLaunched: (job: Job, file: JobFile) => void) {
  const { t } = useTranslation();
  const [text, setText] = useLocalStorage({
    key: draftOf(user),
    defaultValue: "",
    getInitialValueInEffect: false,
    // Another tab's text is another text: what is launched is what stands here.
    sync: false,
    serialize: String,
    deserialize: (kept) => kept ?? "",
  });
  const parsed = useMemo(() => parseJob(text), [text]);
  const last = useRef<Record<string, unknown>>({});
  if (parsed.value !== null) last.current = parsed.value;

  const file = parsed.value as JobFile | null;
  const [settled] = useDebouncedValue(text, PLAN_DELAY_MS);
  const begun = file !== null && Object.keys(file).length > 0;
  const plan = useQuery({ ...planQuery(file ?? ({} as JobFile)), enabled: begun && settled === text });

  const key = useRef({ text: "", key: "" });
  const start = useMutation({
    mutationFn: (wanted: JobFile) => {
      // One key for one content: pressing again after a lost answer finds the job that was made.
      if (key.current.text !== text) key.current = { text, key: uuid() };
      return launch(wanted, key.current.key);
    },
    onSuccess: (job, wanted) => {
      key.current = { text: "", key: "" };
      onLaunched(job, wanted);
    },
  });
  const refused = problemsOf(start.error) ?? (begun ? problemsOf(plan.error) : null);
  const problems = useMemo(
    (): TextProblem[] =>
      parsed.value === null
        ? parsed.problems.map((each) => (each.message === "no-mapping" ? { ...each, message: t("A job file has fields: lines such as `name: value`.") } : each))
        : (refused ?? []).map((problem) => ({ line: lineOfField(text, problem.field), message: sentenceOf(problem) })),
    [parsed, refused, text, t],
  );
  const errors = useMemo(() => {
    const found: Record<string, string> = {};
    for (const problem of refused ?? []) found[fieldOf(problem.field)] ??= sentenceOf(problem, false);
    return found;
  }, [refused]);
  return {
    text,
    setText: (next: string) => {
      start.reset();
      setText(next);
    },
    /** What the form shows: while the text is broken, what it said last. */
    value: parsed.value ?? last.current,
    broken: parsed.value === null,
    file: begun ? file : null,
    plan,
    fresh: settled === text && !plan.isFetching,
    problems,
    errors,
    /** Why it was not launched or planned, if that is not the fault of a field. */
    other: refused === null ? (start.error ?? null) : null,
    start,
  };
}

function problemsOf(error: unknown): readonly FieldProblem[] | null {
  return error instanceof ApiProblem && error.problems.length > 0 ? error.problems : null;
}

function fieldOf(field: string): string {
  return field.replace(/^body\.?/, "").replace(/\.\d+.*$/, "");
}

function sentenceOf(problem: FieldProblem, named = true): string {
  const allowed = problem.allowed ? ` (${problem.allowed})` : "";
  return `${named ? `${problem.field.replace(/^body\.?/, "")}: ` : ""}${problem.message}${allowed}`;
}
