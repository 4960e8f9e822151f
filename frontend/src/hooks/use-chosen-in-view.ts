import { type RefObject, useEffect, useRef } from "react";

/** For a strip of tabs that is wider than its place: brings the chosen one into view, and moves nothing else. */
export function useChosenInView<Strip extends HTMLElement>(chosen: unknown): RefObject<Strip | null> {
  const strip = useRef<Strip>(null);
  useEffect(() => {
    const list = strip.current;
    if (list === null) return undefined;
    // It says so at once, and again when the window is turned or made narrower.
    const observer = new ResizeObserver(() => {
      const tab = list.querySelector('[aria-current="page"], [aria-selected="true"]');
      if (tab === null) return;
      const [outer, inner] = [list.getBoundingClientRect(), tab.getBoundingClientRect()];
      list.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    });
    observer.observe(list);
    return () => observer.disconnect();
  }, [chosen]);
  return strip;
}
