/**
 * The entry for a value of the API, or `unknown` for one that this page does not know: after an upgrade, a page that is still open
 * gets values of the newer release.
 */
export function known<T>(table: Readonly<Record<string, T>>, value: string, unknown: NoInfer<T>): T {
  return Object.hasOwn(table, value) ? (table[value] as T) : unknown;
}
