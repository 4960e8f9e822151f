/**
 * Reads a one-time secret from the URL's fragment, such as `#link=…`, and removes it from the address bar and the
 * history.
 */
export function takeSecret(name: string): string | null {
  const secret = new URLSearchParams(window.location.hash.slice(1)).get(name);
  if (secret === null) return null;
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  return secret;
}
