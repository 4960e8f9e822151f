/** The path to open after the login: a path of this origin, else the home page. Never another origin. */
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

/** Whether the path is served by the API and requires a full navigation instead of the portal's router. */
export function needsFullNavigation(path: string): boolean {
  return path.startsWith("/api/");
}
