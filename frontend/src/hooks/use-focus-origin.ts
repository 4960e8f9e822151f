import { useLayoutEffect } from "react";

/** Time in ms in which the closed dialog may give the focus to something else. */
const SETTLED_MS = 20;

/**
 * Returns the focus to where it was before a dialog opened when the dialog closes, also if it is mounted open and unmounted to close it.
 * Where an entry of a menu opened it, the menu's own button gets the focus.
 */
export function useFocusOrigin(opened: boolean): void {
  useLayoutEffect(() => {
    if (!opened) return;
    const origin = originOf(document.activeElement);
    return () => {
      const atClose = document.activeElement;
      window.setTimeout(() => {
        const now = document.activeElement;
        // Not if the user, or the action of the dialog, has moved it meanwhile.
        if (now === null || now === document.body || now === atClose) origin?.focus({ preventScroll: true });
      }, SETTLED_MS);
    };
  }, [opened]);
}

function originOf(active: Element | null): HTMLElement | null {
  const menu = active?.closest("[role=menu]")?.getAttribute("aria-labelledby");
  const element = menu ? document.getElementById(menu) : active;
  return element instanceof HTMLElement && element !== document.body ? element : null;
}
