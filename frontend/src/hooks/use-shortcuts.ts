import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { pagesFor } from "@/lib/pages";

/** Time limit for the page's letter after `g`. */
const SEQUENCE_MS = 1_500;
const DISABLED_KEY = "aitne-single-keys-off";

/** Whether single-key shortcuts are enabled; they can be disabled, for example for speech input. */
export function singleKeys(): boolean {
  return localStorage.getItem(DISABLED_KEY) === null;
}

export function setSingleKeys(on: boolean): void {
  if (on) localStorage.removeItem(DISABLED_KEY);
  else localStorage.setItem(DISABLED_KEY, "1");
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
        // In a terminal, the shell handles the key.
        if (target?.closest(".xterm")) return;
        event.preventDefault();
        current.current.onSearch();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || !singleKeys() || isEditing(target)) return;
      const going = performance.now() - goingAt < SEQUENCE_MS;
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

/** Whether the focus is in an input, a dialog or a menu, where letters are not shortcuts. */
function isEditing(target: Element | null): boolean {
  const editable = target?.closest('input, textarea, select, [contenteditable="true"], [role="dialog"], [role="menu"]') ?? null;
  return editable !== null;
}
