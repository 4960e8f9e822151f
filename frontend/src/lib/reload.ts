const KEY = "aitne-reloaded-at";
const MIN_INTERVAL_MS = 60_000;

/**
 * Reloads the page when a file cannot be loaded although the server responds: after an upgrade, files that an open
 * page has not loaded yet no longer exist. At most once a minute, because another failure has another cause.
 */
export function reloadAfterUpgrade(): void {
  window.addEventListener("vite:preloadError", () => void reload());
}

async function reload(): Promise<void> {
  if (Date.now() - Number(sessionStorage.getItem(KEY)) < MIN_INTERVAL_MS) return;
  sessionStorage.setItem(KEY, String(Date.now()));
  const available = await fetch("/", { method: "HEAD", cache: "no-store" }).then(({ ok }) => ok, () => false);
  if (available) window.location.reload();
}
