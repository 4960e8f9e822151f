import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { pagesFor } from "@/lib/pages";

/** How long after `g` the page's letter may come. */
const PATIENCE_MS = 1_500;
const OFF = "aitne-single-keys-off";

/** Shortcuts of one letter can be put off, for people who dictate or whose fingers slip. */
export function singleKeys(): boolean {
  return localStorage.getItem(OFF) === null;
}

export function setSingleKeys(on: boolean): void {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "1");
}

interface Handlers {
  role: "user" | "admin";
  onSearch: () => void;
  onHelp: () => void;
}

/** The keys that work on every page. */
export function useShortcuts(handlers: Handlers): void {
  const navigate = useNavigate();
  const current = useRef(handlers);
  useEffect(() => {
    current.current = handlers;
  });
  useEffect(() => {
    let goingAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      const target = event.target instanceof Element ? event.target : null;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        // In a terminal it cuts the line.
        if (target?.closest(".xterm")) return;
        event.preventDefault();
        current.current.onSearch();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || !singleKeys() || isWriting(target)) return;
      const going = performance.now() - goingAt < PATIENCE_MS;
      goingAt = 0;
      const page = going ? pagesFor(current.current.role).find(({ letter }) => letter === event.key) : undefined;
      if (page !== undefined) void navigate({ to: page.to });
      else if (event.key === "g") goingAt = performance.now();
      else if (event.key === "/") current.current.onSearch();
      else if (event.key === "?") current.current.onHelp();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [navigate]);
}

/** Letters belong to what is being written, and to an open dialog or menu. */
function isWriting(target: Element | null): boolean {
  const place = target?.closest('input, textarea, select, [contenteditable="true"], [role="dialog"], [role="menu"]') ?? null;
  return place !== null;
}
