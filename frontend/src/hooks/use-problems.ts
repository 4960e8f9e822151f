import { ApiProblem } from "@/api/problem";

/** Which of a form's fields a refused request complains about; `unshown` where it names none of them. */
export function useProblems(error: unknown, fields: readonly string[]) {
  const problems = error instanceof ApiProblem ? error.problems : [];
  const errorOf = (field: string) => problems.find((problem) => problem.field.replace(/^body\./, "") === field)?.message;
  return { errorOf, unshown: error !== null && !fields.some((field) => errorOf(field) !== undefined) };
}
