import { type RefObject, useEffect, useRef } from "react";

/** Scrolls the selected tab of a strip into view, without scrolling the page. */
export function useSelectedInView<Strip extends HTMLElement>(selected: unknown): RefObject<Strip | null> {
  const strip = useRef<Strip>(null);
  useEffect(() => {
    const list = strip.current;
    if (list === null) return undefined;
    // The observer calls back at once, and again when the width changes.
    const observer = new ResizeObserver(() => {
      const tab = list.querySelector('[aria-current="page"], [aria-selected="true"]');
      if (tab === null) return;
      const [outer, inner] = [list.getBoundingClientRect(), tab.getBoundingClientRect()];
      list.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    });
    observer.observe(list);
    return () => observer.disconnect();
  }, [selected]);
  return strip;
}
