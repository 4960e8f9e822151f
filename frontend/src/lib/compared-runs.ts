/** The runs of a comparison, as in the URL of its page. */
export const MOST_RUNS = 8;

/** IDs in a text, separated by commas or spaces; each once, at most `MOST_RUNS`. */
export function readRuns(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))].slice(0, MOST_RUNS);
}

export function comparePath(ids: readonly string[]): string {
  return `/compare?runs=${ids.join(",")}`;
}
