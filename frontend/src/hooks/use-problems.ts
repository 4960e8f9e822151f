import { ApiProblem } from "@/api/problem";

/**
 * Errors of a form from a rejected request. `errorOf(field)` is the message of a field (undefined: it has none);
 * `hasOtherErrors` says that the form must show the error itself, too: it names no field, or one that is not in `fields`.
 */
export function useProblems(error: unknown, fields: readonly string[]) {
  const problems = (error instanceof ApiProblem ? error.problems : []).map(({ field, message }) => ({ field: field.replace(/^body\./, ""), message }));
  const errorOf = (field: string) => problems.find((problem) => problem.field === field)?.message;
  const hasOtherErrors = error !== null && (problems.length === 0 || problems.some((problem) => !fields.includes(problem.field)));
  return { errorOf, hasOtherErrors };
}
