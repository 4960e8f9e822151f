import { useEffect, useRef, useState } from "react";
import { singleKeys } from "@/hooks/use-shortcuts";

interface Handlers {
  count: number;
  onMove: (index: number) => void;
  onOpen: (index: number) => void;
  onToggle: (index: number) => void;
  onClear: () => void;
}

/** Keys of the table: j and k move, x selects, Enter opens, Escape clears. Returns the current row, or -1. */
export function useTableKeys(handlers: Handlers): number {
  const [row, setRow] = useState(-1);
  const latest = useRef({ ...handlers, row });
  useEffect(() => {
    latest.current = { ...handlers, row };
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !singleKeys()) return;
      const target = event.target instanceof Element ? event.target : null;
      if (target?.closest('input:not([type="checkbox"]), textarea, select, [contenteditable="true"], [role="dialog"], [role="menu"]')) return;
      const { row: index, count, onMove, onOpen, onToggle, onClear } = latest.current;
      const step = { j: 1, k: -1 }[event.key];
      if (step !== undefined && count > 0) {
        const next = Math.max(0, Math.min(count - 1, index + step));
        setRow(next);
        onMove(next);
      } else if (event.key === "x" && index >= 0) onToggle(index);
      // Enter activates a focused link or button instead.
      else if (event.key === "Enter" && index >= 0 && !target?.closest("a, button")) onOpen(index);
      else if (event.key === "Escape") onClear();
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return Math.min(row, handlers.count - 1);
}
