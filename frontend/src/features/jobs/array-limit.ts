/** The maximum of running tasks in Slurm's form of an array: "0-99%8" -> 8; null without a limit. */
export function runningLimit(array: string): number | null {
  const limit = /%(\d+)$/.exec(array)?.[1];
  return limit === undefined ? null : Number(limit);
}
