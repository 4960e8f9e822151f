import { ApiProblem } from "@/api/problem";

/** The errors of a form's fields from a rejected request; `unshown` where it names none of the fields. */
export function useProblems(error: unknown, fields: readonly string[]) {
  const problems = error instanceof ApiProblem ? error.problems : [];
  const errorOf = (field: string) => problems.find((problem) => problem.field.replace(/^body\./, "") === field)?.message;
  return { errorOf, unshown: error !== null && !fields.some((field) => errorOf(field) !== undefined) };
}
