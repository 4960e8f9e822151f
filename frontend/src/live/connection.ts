/** A connection to /api/v1/events with heartbeat timeout, reconnection by backoff with jitter, and replay. */
import { SseParser } from "@/live/sse";

export interface ConnectionHandlers {
  /** The stream is open. */
  onOpen: () => void;
  onMessage: (event: string, data: unknown) => void;
  /** The stream was interrupted; reconnection is automatic. */
  onLost: () => void;
  /** The login has expired; there is no further attempt. */
  onUnauthorized: () => void;
}

/** The platform sends a comment every 15 s; after this silence the connection counts as dead. */
const SILENCE_MS = 40_000;
const BACKOFF_MS = { first: 500, max: 15_000 };

/** Milliseconds before attempt `failures` (counted from 1): doubled each time, reduced at random by up to half. */
export function backoff(failures: number, random: () => number = Math.random): number {
  const full = Math.min(BACKOFF_MS.max, BACKOFF_MS.first * 2 ** (failures - 1));
  return full * (0.5 + random() / 2);
}

export function connect(url: string, handlers: ConnectionHandlers, lastEventId: number | null): () => void {
  const stopped = new AbortController();
  let last = lastEventId;

  const connectOnce = async (): Promise<"lost" | "unauthorized"> => {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    stopped.signal.addEventListener("abort", abort);
    let timer = window.setTimeout(abort, SILENCE_MS);
    try {
      const response = await fetch(url, {
        credentials: "same-origin",
        cache: "no-store",
        headers: {
          Accept: "text/event-stream",
          ...(last === null ? {} : { "Last-Event-ID": String(last) }),
        },
        signal: attempt.signal,
      });
      if (response.status === 401) return "unauthorized";
      if (!response.ok || response.body === null) return "lost";
      failures = 0;
      handlers.onOpen();
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new SseParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "lost";
        window.clearTimeout(timer);
        timer = window.setTimeout(abort, SILENCE_MS);
        for (const message of parser.feed(decoder.decode(value, { stream: true }))) {
          const id = Number(message.id ?? NaN);
          if (Number.isFinite(id)) last = id;
          handlers.onMessage(message.event, parse(message.data));
        }
      }
    } catch {
      return "lost"; // Refused, interrupted, timed out or aborted: retry unless stopped.
    } finally {
      window.clearTimeout(timer);
      stopped.signal.removeEventListener("abort", abort);
    }
  };

  let failures = 0;
  const run = async () => {
    for (;;) {
      const outcome = await connectOnce();
      if (stopped.signal.aborted) return;
      if (outcome === "unauthorized") {
        handlers.onUnauthorized();
        return;
      }
      handlers.onLost();
      failures += 1;
      await pause(backoff(failures), stopped.signal);
    }
  };
  void run();
  return () => stopped.abort();
}

/** Waits, at most until the browser is online again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = window.setTimeout(done, ms);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}
