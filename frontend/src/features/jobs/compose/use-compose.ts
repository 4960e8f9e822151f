import { useDebouncedValue, useLocalStorage } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { launch } from "@/api/actions";
import { ApiProblem } from "@/api/problem";
import { planQuery } from "@/api/queries";
import type { FieldProblem, Job, JobFile } from "@/api/types";
import { uuid } from "@/lib/id";
import { jobOf, lineOfField, parseJob, type TextProblem } from "./job-yaml";

const PLAN_DELAY_MS = 400;
/** The draft survives leaving the page and a browser crash; each user has a separate one. */
const draftKey = (user: string) => `aitne-compose-draft-${user}`;

/** The text of a job file with its parsed value, problems and plan. */
export function useCompose(user: string, onLaunched: (job: Job, file: JobFile) => void) {
  const [text, setText] = useLocalStorage({
    key: draftKey(user),
    defaultValue: "",
    getInitialValueInEffect: false,
    // Tabs do not share their text: a tab launches the text that it displays.
    sync: false,
    serialize: String,
    deserialize: (stored) => stored ?? "",
  });
  const parsed = useMemo(() => parseJob(text), [text]);
  const lastValue = useRef<Record<string, unknown>>({});
  if (parsed.value !== null) lastValue.current = parsed.value;

  const file = useMemo(() => (parsed.value === null ? null : (jobOf(parsed.value) as JobFile)), [parsed]);
  const [debouncedText] = useDebouncedValue(text, PLAN_DELAY_MS);
  const hasFields = file !== null && Object.keys(file).length > 0;
  const plan = useQuery({ ...planQuery(file ?? ({} as JobFile)), enabled: hasFields && debouncedText === text });

  const key = useRef({ text: "", key: "" });
  const start = useMutation({
    mutationFn: (jobFile: JobFile) => {
      // One idempotency key per content: a retry after a lost response returns the created job.
      if (key.current.text !== text) key.current = { text, key: uuid() };
      return launch(jobFile, key.current.key);
    },
    onSuccess: (job, jobFile) => {
      key.current = { text: "", key: "" };
      onLaunched(job, jobFile);
    },
  });
  const fieldProblems = problemsOf(start.error) ?? (hasFields ? problemsOf(plan.error) : null);
  const problems = useMemo(
    (): TextProblem[] =>
      parsed.value === null
        ? parsed.problems
        : (fieldProblems ?? []).map((problem) => ({ line: lineOfField(text, problem.field), message: sentenceOf(problem) })).sort((a, b) => a.line - b.line),
    [parsed, fieldProblems, text],
  );
  const errors = useMemo(() => {
    const messages: Record<string, string> = {};
    for (const problem of fieldProblems ?? []) messages[fieldOf(problem.field)] ??= sentenceOf(problem, false);
    return messages;
  }, [fieldProblems]);
  return {
    text,
    setText: (next: string) => {
      start.reset();
      setText(next);
    },
    /** The value of the form: the last valid one while the text has a syntax error. */
    value: parsed.value ?? lastValue.current,
    broken: parsed.value === null,
    file: hasFields ? file : null,
    plan,
    fresh: debouncedText === text && !plan.isFetching,
    problems,
    errors,
    /** An error of the launch or plan that concerns no field. */
    other: fieldProblems === null ? (start.error ?? null) : null,
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
