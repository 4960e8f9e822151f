/** The WebSocket of a terminal: flow control in both directions, reconnection to the same shell. */
import { API, client, must } from "@/api/client";
import { ApiProblem, messageOf, problemFrom } from "@/api/problem";

export type LinkStatus = "connecting" | "open" | "broken" | "ended" | "refused";

export interface LinkState {
  status: LinkStatus;
  /** The node of the shell, once it is open. */
  node: string | null;
  where: "node" | "container" | "beside" | null;
  /** Exit code of an ended program; null: unknown. */
  code: number | null;
  /** Why it ended or cannot be opened. */
  reason: string | null;
  problem: ApiProblem | null;
}

export interface Size {
  rows: number;
  cols: number;
}

interface LinkOptions {
  jobId: string;
  node: string | null;
  size: Size;
  /** Receives output; `onWritten` is called when it has been rendered. */
  onOutput: (data: Uint8Array, onWritten: () => void) => void;
  onState: (state: LinkState) => void;
}

/** Time for which the platform keeps a shell after a disconnection. */
const RESUME_MS = 55_000;
const PAUSE_MS = { first: 300, max: 5_000 };
const CHUNK_BYTES = 32 * 1024;
const INITIAL_STATE: LinkState = { status: "connecting", node: null, where: null, code: null, reason: null, problem: null };

interface ServerMessage {
  type: string;
  terminal: string;
  node: string;
  where: LinkState["where"];
  window: number;
  received: number;
  bytes: number;
  code: number | null;
  reason: string | null;
  problem: { status: number };
}

export class TerminalLink {
  private socket: WebSocket | null = null;
  private state = INITIAL_STATE;
  private terminal: string | null = null;
  private received = 0;
  private window = 0;
  /** Input without confirmation; `confirmed` counts the bytes that the program has received. */
  private typed = new Uint8Array(0);
  private confirmed = 0;
  private sent = 0;
  private size: Size;
  private pause = PAUSE_MS.first;
  private timer = 0;
  private disconnectedAt: number | null = null;
  private closed = false;

  constructor(private readonly options: LinkOptions) {
    this.size = options.size;
  }

  /** Connects; called once. */
  start(): void {
    window.addEventListener("online", this.reconnectNow);
    void this.connect();
  }

  /** Closes the connection; the shell ends. */
  close(): void {
    this.closed = true;
    window.removeEventListener("online", this.reconnectNow);
    window.clearTimeout(this.timer);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "close" }));
    this.socket?.close();
  }

  type(text: string): void {
    this.typeBytes(new TextEncoder().encode(text));
  }

  /** Binary input, such as mouse reports: one byte per character. */
  typeBinary(text: string): void {
    this.typeBytes(Uint8Array.from(text, (char) => char.charCodeAt(0) & 255));
  }

  resize(size: Size): void {
    this.size = size;
    if (this.state.status === "open") this.sendMessage({ type: "resize", ...size });
  }

  private typeBytes(data: Uint8Array): void {
    if (this.state.status === "ended" || this.state.status === "refused") return;
    const joined = new Uint8Array(this.typed.length + data.length);
    joined.set(this.typed);
    joined.set(data, this.typed.length);
    this.typed = joined;
    this.flush();
  }

  private flush(): void {
    if (this.state.status !== "open" || this.socket === null) return;
    const end = Math.min(this.typed.length, this.window);
    while (this.sent < end) {
      const chunk = this.typed.slice(this.sent, Math.min(end, this.sent + CHUNK_BYTES));
      this.socket.send(chunk);
      this.sent += chunk.length;
    }
  }

  private sendMessage(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private update(change: Partial<LinkState>): void {
    this.state = { ...this.state, ...change };
    this.options.onState(this.state);
  }

  private reconnectNow = (): void => {
    if (this.state.status !== "broken") return;
    window.clearTimeout(this.timer);
    void this.connect();
  };

  private async connect(): Promise<void> {
    const { jobId, node } = this.options;
    try {
      const ticket = await must(
        client.POST("/api/v1/jobs/{job_id}/terminal", { params: { path: { job_id: jobId } }, body: { node } }),
      );
      if (!this.closed) this.open(ticket.ticket);
    } catch (error) {
      if (this.closed) return;
      if (error instanceof ApiProblem && error.unreachable) this.onDisconnect();
      else this.refuse(error);
    }
  }

  private open(ticket: string): void {
    const url = new URL(`${API}/jobs/${this.options.jobId}/terminal?hold=true`, window.location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      const first =
        this.terminal === null
          ? { type: "open", ticket, start: { kind: "shell", tty: true, ...this.size } }
          : { type: "resume", ticket, terminal: this.terminal, received: this.received };
      socket.send(JSON.stringify(first));
    };
    socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
      if (socket !== this.socket) return;
      if (typeof event.data === "string") this.onServerMessage(JSON.parse(event.data) as ServerMessage);
      else this.onOutput(new Uint8Array(event.data));
    };
    socket.onclose = () => {
      if (socket !== this.socket || this.closed) return;
      this.socket = null;
      if (this.state.status !== "ended" && this.state.status !== "refused") this.onDisconnect();
    };
  }

  private onOutput(message: Uint8Array): void {
    this.received += message.length;
    const upTo = this.received;
    this.options.onOutput(message.subarray(1), () => this.sendMessage({ type: "ack", bytes: upTo }));
  }

  private onServerMessage(message: ServerMessage): void {
    switch (message.type) {
      case "started":
        this.terminal = message.terminal;
        this.window = message.window;
        this.confirm(message.received);
        this.sent = 0;
        this.pause = PAUSE_MS.first;
        this.disconnectedAt = null;
        this.update({ status: "open", node: message.node, where: message.where, reason: null });
        this.sendMessage({ type: "resize", ...this.size });
        this.flush();
        break;
      case "ack":
        this.confirm(message.bytes);
        this.flush();
        break;
      case "exit":
        this.update({ status: "ended", code: message.code, reason: message.reason });
        break;
      case "error":
        this.refuse(problemFrom(message.problem.status, message.problem, new Headers()));
        break;
    }
  }

  private confirm(bytes: number): void {
    const newlyConfirmed = Math.max(0, bytes - this.confirmed);
    this.typed = this.typed.slice(newlyConfirmed);
    this.sent = Math.max(0, this.sent - newlyConfirmed);
    this.confirmed = bytes;
  }

  private onDisconnect(): void {
    this.disconnectedAt ??= Date.now();
    if (this.terminal !== null && Date.now() - this.disconnectedAt > RESUME_MS) {
      // Pending input belongs to that shell and is discarded.
      this.update({ status: "ended", code: null, reason: null });
      return;
    }
    this.update({ status: "broken" });
    this.timer = window.setTimeout(() => void this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, PAUSE_MS.max);
  }

  private refuse(error: unknown): void {
    // The shell no longer exists: it has ended, the connection was not refused.
    if (this.terminal !== null && error instanceof ApiProblem && error.status === 404) {
      this.update({ status: "ended", code: null, reason: null });
      return;
    }
    const problem = error instanceof ApiProblem ? error : null;
    this.update({ status: "refused", reason: messageOf(error), problem });
  }
}
