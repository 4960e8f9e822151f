const KEY = "aitne-loaded-anew";
const PAUSE_MS = 60_000;

/**
 * An upgrade takes away files that a page left open has not loaded yet. When one cannot be had and the portal
 * answers, the page is loaded anew; not twice within a minute, for then that was not the reason.
 */
export function loadAnewWhenReplaced(): void {
  window.addEventListener("vite:preloadError", () => void loadAnew());
}

async function loadAnew(): Promise<void> {
  if (Date.now() - Number(sessionStorage.getItem(KEY)) < PAUSE_MS) return;
  sessionStorage.setItem(KEY, String(Date.now()));
  const answers = await fetch("/", { method: "HEAD", cache: "no-store" }).then(({ ok }) => ok, () => false);
  if (answers) window.location.reload();
}
