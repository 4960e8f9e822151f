/**
 * The live feed of a browser: one of its tabs holds the connection.
 *
 * The tab with the Web Lock is the leader: it connects and forwards every message through a BroadcastChannel. When it
 * closes, the next tab gets the lock and connects from its last event. Without Web Locks (plain HTTP), each tab has
 * a connection of its own.
 */
import { connect } from "@/live/connection";

export type LiveStatus = "connecting" | "live" | "lost";

export interface LiveState {
  status: LiveStatus;
  /** Time of the last message, shown as "data as of" while the connection is lost. */
  asOf: number;
}

export interface LiveHandlers {
  onEvent: (kind: string, event: unknown) => void;
  /** Events may have been missed: visible data must be fetched again. */
  onReset: () => void;
  onUnauthorized: () => void;
}

type Packet =
  | { type: "message"; kind: string; event: unknown }
  | { type: "state"; state: LiveState; lastId: number | null }
  | { type: "unauthorized" }
  | { type: "ask" };

/** Interval at which the leader sends the last event's ID, so that suspended tabs detect a gap. */
const BEACON_MS = 15_000;

export class LiveFeed {
  private state: LiveState = { status: "connecting", asOf: Date.now() };
  private listeners = new Set<() => void>();
  private lastId: number | null = null;
  private wasOpen = false;
  private stopping: (() => void)[] = [];

  constructor(
    private readonly url: string,
    /** Name of the channel: one for each logged-in user. */
    private readonly name: string,
    private readonly handlers: LiveHandlers,
  ) {}

  getState = (): LiveState => this.state;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): void {
    const locks = (navigator as { locks?: LockManager }).locks;
    if (locks === undefined || typeof BroadcastChannel === "undefined") {
      this.lead(() => undefined);
      return;
    }
    const channel = new BroadcastChannel(this.name);
    const aborter = new AbortController();
    channel.onmessage = (message: MessageEvent<Packet>) => this.onPacket(message.data);
    channel.postMessage({ type: "ask" } satisfies Packet);
    this.stopping.push(() => {
      aborter.abort();
      channel.close();
    });
    locks
      .request(this.name, { signal: aborter.signal }, () => {
        this.lead((packet) => channel.postMessage(packet));
        channel.onmessage = (message: MessageEvent<Packet>) => {
          if (message.data.type === "ask") channel.postMessage(this.beacon());
        };
        const timer = window.setInterval(() => channel.postMessage(this.beacon()), BEACON_MS);
        return new Promise<void>((resolve) => {
          this.stopping.push(() => {
            window.clearInterval(timer);
            resolve();
          });
        });
      })
      .catch(() => undefined); // Aborted while waiting for the lock: the feed was stopped.
  }

  stop(): void {
    for (const stop of this.stopping.splice(0)) stop();
  }

  private lead(broadcast: (packet: Packet) => void): void {
    const share = (status: LiveStatus) => {
      this.setState({ status, asOf: status === "lost" ? this.state.asOf : Date.now() });
      broadcast(this.beacon());
    };
    this.stopping.push(
      connect(
        this.url,
        {
          onOpen: () => share("live"),
          onMessage: (kind, event) => {
            this.state = { ...this.state, asOf: Date.now() };
            broadcast({ type: "message", kind, event });
            this.onMessage(kind, event);
          },
          onLost: () => {
            if (this.state.status !== "lost") share("lost");
          },
          onUnauthorized: () => {
            broadcast({ type: "unauthorized" });
            this.handlers.onUnauthorized();
          },
        },
        this.lastId,
      ),
    );
  }

  private onPacket(packet: Packet): void {
    if (packet.type === "message") this.onMessage(packet.kind, packet.event);
    else if (packet.type === "unauthorized") this.handlers.onUnauthorized();
    else if (packet.type === "state") {
      const missed = packet.lastId !== null && this.lastId !== null && packet.lastId > this.lastId;
      this.lastId = packet.lastId ?? this.lastId;
      this.setState(packet.state);
      if (missed) this.handlers.onReset();
    }
  }

  private onMessage(kind: string, event: unknown): void {
    if (kind === "hello" || kind === "reset") {
      const id = field(event, "last_event_id");
      if (id !== null) this.lastId = Math.max(this.lastId ?? 0, id);
      // The first hello covers the time between page load and connection; later connections replay events.
      if (kind === "reset" || !this.wasOpen) this.handlers.onReset();
      this.wasOpen = true;
      return;
    }
    const id = field(event, "id");
    if (id !== null) this.lastId = id;
    this.handlers.onEvent(kind, event);
  }

  private beacon(): Packet {
    return { type: "state", state: this.state, lastId: this.lastId };
  }

  private setState(state: LiveState): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

function field(value: unknown, name: string): number | null {
  if (typeof value !== "object" || value === null) return null;
  const content = (value as Record<string, unknown>)[name];
  return typeof content === "number" ? content : null;
}
