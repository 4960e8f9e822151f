/** The runs of a comparison, as in the URL of its page. */
export const MOST_RUNS = 8;

/** IDs in a text, separated by commas or spaces; each once, at most `MOST_RUNS`. */
export function readRuns(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))].slice(0, MOST_RUNS);
}

/** Whether this is the full ID of a job. */
export function isJobId(text: string): boolean {
  return /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text);
}

export function comparePath(ids: readonly string[]): string {
  return `/compare?runs=${ids.join(",")}`;
}
