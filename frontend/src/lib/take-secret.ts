/**
 * A one-time secret in the address after `#`, such as `#link=…`: taken once, and away from the address bar
 * and the history before anything else happens.
 */
export function takeSecret(name: string): string | null {
  const found = new URLSearchParams(window.location.hash.slice(1)).get(name);
  if (found === null) return null;
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  return found;
}
