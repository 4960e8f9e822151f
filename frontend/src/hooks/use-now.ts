import { useSyncExternalStore } from "react";
import { platformNow } from "@/api/client";

const STALE_MS = 1_000;

/** A shared clock for the page's relative times; it stops while the page is hidden. */
class Ticker {
  private listeners = new Set<() => void>();
  private timer: number | undefined;
  now = platformNow();

  constructor(private readonly everyMs: number) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) {
      this.tick();
      this.timer = window.setInterval(this.tick, this.everyMs);
      document.addEventListener("visibilitychange", this.tick);
    } else if (platformNow().getTime() - this.now.getTime() > STALE_MS) {
      // Else what was created since the last tick would lie in the future.
      this.tick();
    }
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) {
        window.clearInterval(this.timer);
        document.removeEventListener("visibilitychange", this.tick);
      }
    };
  };

  snapshot = (): Date => this.now;

  private tick = () => {
    if (document.hidden) return;
    this.now = platformNow();
    for (const listener of this.listeners) listener();
  };
}

const seconds = new Ticker(1_000);
const slow = new Ticker(15_000);

/** The platform's time, updated every second. */
export function useNow(): Date {
  return useSyncExternalStore(seconds.subscribe, seconds.snapshot, seconds.snapshot);
}

/** The platform's time for "5 min ago": updated every 15 seconds. */
export function useSlowNow(): Date {
  return useSyncExternalStore(slow.subscribe, slow.snapshot, slow.snapshot);
}
