/** Where to go after logging in: a path of this origin, or the front page. Never another site. */
export function safeNext(next: string | null | undefined, origin: string): string {
  if (!next?.startsWith("/")) return "/";
  try {
    const url = new URL(next, origin);
    if (url.origin !== origin || url.pathname.startsWith("//")) return "/";
    if (url.pathname === "/login") return "/";
    return url.pathname + url.search + url.hash;
  } catch {
    return "/";
  }
}

/** Whether the browser must load it from the server (the API's own pages), not the portal's router. */
export function needsFullNavigation(path: string): boolean {
  return path.startsWith("/api/");
}
