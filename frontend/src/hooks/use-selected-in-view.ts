import { type RefObject, useEffect, useRef } from "react";

/** Scrolls the selected tab of a strip into view, without scrolling the page, and marks a strip that is too long. */
export function useSelectedInView<Strip extends HTMLElement>(selected: unknown): RefObject<Strip | null> {
  const strip = useRef<Strip>(null);
  useEffect(() => {
    const list = strip.current;
    if (list === null) return undefined;
    // The observer calls back at once, and again when the width changes.
    const observer = new ResizeObserver(() => {
      // `app.css` fades the end of such a strip.
      list.toggleAttribute("data-overflow", list.scrollWidth > list.clientWidth);
      const tab = list.querySelector('[aria-current="page"], [aria-selected="true"]');
      if (tab === null) return;
      const [outer, inner] = [list.getBoundingClientRect(), tab.getBoundingClientRect()];
      list.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    });
    for (const each of [list, ...list.children]) observer.observe(each);
    return () => observer.disconnect();
  }, [selected]);
  return strip;
}
