import { useEffect, useRef, useState } from "react";
import { singleKeys } from "@/shell/use-shortcuts";

interface Handlers {
  count: number;
  onMove: (index: number) => void;
  onOpen: (index: number) => void;
  onToggle: (index: number) => void;
  onClear: () => void;
}

/** j and k move, x chooses, Enter opens, Escape lets go; the row where they are, or -1. */
export function useTableKeys(handlers: Handlers): number {
  const [at, setAt] = useState(-1);
  const current = useRef({ ...handlers, at });
  useEffect(() => {
    current.current = { ...handlers, at };
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !singleKeys()) return;
      const target = event.target instanceof Element ? event.target : null;
      if (target?.closest('input:not([type="checkbox"]), textarea, select, [contenteditable="true"], [role="dialog"], [role="menu"]')) return;
      const { at: here, count, onMove, onOpen, onToggle, onClear } = current.current;
      const step = { j: 1, k: -1 }[event.key];
      if (step !== undefined && count > 0) {
        const next = Math.max(0, Math.min(count - 1, here + step));
        setAt(next);
        onMove(next);
      } else if (event.key === "x" && here >= 0) onToggle(here);
      // A link or button that has the focus is what Enter presses.
      else if (event.key === "Enter" && here >= 0 && !target?.closest("a, button")) onOpen(here);
      else if (event.key === "Escape") onClear();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return Math.min(at, handlers.count - 1);
}
