/** One terminal's WebSocket: both directions with a window, and back to the same shell after a break. */
import { API, client, must } from "@/api/client";
import { ApiProblem, messageOf, problemFrom } from "@/api/problem";

export type LinkStatus = "connecting" | "open" | "broken" | "ended" | "refused";

export interface LinkState {
  status: LinkStatus;
  /** Where it is, once it has been open. */
  node: string | null;
  where: "node" | "container" | "beside" | null;
  /** Of a program that has ended; null: nobody knows. */
  code: number | null;
  /** Why it ended, or what stands in the way. */
  reason: string | null;
  problem: ApiProblem | null;
}

export interface Size {
  rows: number;
  cols: number;
}

interface Wishes {
  jobId: string;
  node: string | null;
  size: Size;
  /** Takes output; `taken` is called when it has been drawn. */
  onOutput: (data: Uint8Array, taken: () => void) => void;
  onState: (state: LinkState) => void;
}

/** The platform keeps a shell for so long after a break; later it is gone. */
const COME_BACK_MS = 55_000;
const PAUSE_MS = { first: 300, most: 5_000 };
const PIECE = 32 * 1024;
const FIRST: LinkState = { status: "connecting", node: null, where: null, code: null, reason: null, problem: null };

interface Told {
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
  private state = FIRST;
  private terminal: string | null = null;
  private received = 0;
  private window = 0;
  /** What was typed and has not reached the program; `confirmed` bytes have. */
  private typed = new Uint8Array(0);
  private confirmed = 0;
  private sent = 0;
  private size: Size;
  private pause = PAUSE_MS.first;
  private timer = 0;
  private brokeAt: number | null = null;
  private closed = false;

  constructor(private readonly wishes: Wishes) {
    this.size = wishes.size;
  }

  /** Begins. Once. */
  start(): void {
    window.addEventListener("online", this.now);
    void this.connect();
  }

  /** Hangs up: the shell ends. */
  close(): void {
    this.closed = true;
    window.removeEventListener("online", this.now);
    window.clearTimeout(this.timer);
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "close" }));
    this.socket?.close();
  }

  type(text: string): void {
    this.typeBytes(new TextEncoder().encode(text));
  }

  /** What is no text, such as the mouse's reports: a byte in each character. */
  typeBinary(text: string): void {
    this.typeBytes(Uint8Array.from(text, (char) => char.charCodeAt(0) & 255));
  }

  resize(size: Size): void {
    this.size = size;
    if (this.state.status === "open") this.say({ type: "resize", ...size });
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
      const piece = this.typed.slice(this.sent, Math.min(end, this.sent + PIECE));
      this.socket.send(piece);
      this.sent += piece.length;
    }
  }

  private say(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private tell(change: Partial<LinkState>): void {
    this.state = { ...this.state, ...change };
    this.wishes.onState(this.state);
  }

  private now = (): void => {
    if (this.state.status !== "broken") return;
    window.clearTimeout(this.timer);
    void this.connect();
  };

  private async connect(): Promise<void> {
    const { jobId, node } = this.wishes;
    try {
      const ticket = await must(
        client.POST("/api/v1/jobs/{job_id}/terminal", { params: { path: { job_id: jobId } }, body: { node } }),
      );
      if (!this.closed) this.open(ticket.ticket);
    } catch (error) {
      if (this.closed) return;
      if (error instanceof ApiProblem && error.unreachable) this.broke();
      else this.refuse(error);
    }
  }

  private open(ticket: string): void {
    const address = new URL(`${API}/jobs/${this.wishes.jobId}/terminal?hold=true`, window.location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
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
      if (typeof event.data === "string") this.hear(JSON.parse(event.data) as Told);
      else this.take(new Uint8Array(event.data));
    };
    socket.onclose = () => {
      if (socket !== this.socket || this.closed) return;
      this.socket = null;
      if (this.state.status !== "ended" && this.state.status !== "refused") this.broke();
    };
  }

  private take(message: Uint8Array): void {
    this.received += message.length;
    const upTo = this.received;
    this.wishes.onOutput(message.subarray(1), () => this.say({ type: "ack", bytes: upTo }));
  }

  private hear(told: Told): void {
    switch (told.type) {
      case "started":
        this.terminal = told.terminal;
        this.window = told.window;
        this.confirm(told.received);
        this.sent = 0;
        this.pause = PAUSE_MS.first;
        this.brokeAt = null;
        this.tell({ status: "open", node: told.node, where: told.where, reason: null });
        this.say({ type: "resize", ...this.size });
        this.flush();
        break;
      case "ack":
        this.confirm(told.bytes);
        this.flush();
        break;
      case "exit":
        this.tell({ status: "ended", code: told.code, reason: told.reason });
        break;
      case "error":
        this.refuse(problemFrom(told.problem.status, told.problem, new Headers()));
        break;
    }
  }

  private confirm(bytes: number): void {
    const fresh = Math.max(0, bytes - this.confirmed);
    this.typed = this.typed.slice(fresh);
    this.sent = Math.max(0, this.sent - fresh);
    this.confirmed = bytes;
  }

  private broke(): void {
    this.brokeAt ??= Date.now();
    if (this.terminal !== null && Date.now() - this.brokeAt > COME_BACK_MS) {
      // What was typed meanwhile was meant for that shell and is for no other.
      this.tell({ status: "ended", code: null, reason: null });
      return;
    }
    this.tell({ status: "broken" });
    this.timer = window.setTimeout(() => void this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, PAUSE_MS.most);
  }

  private refuse(error: unknown): void {
    // The shell that was left is gone: that ends it, and nothing was refused.
    if (this.terminal !== null && error instanceof ApiProblem && error.status === 404) {
      this.tell({ status: "ended", code: null, reason: null });
      return;
    }
    const problem = error instanceof ApiProblem ? error : null;
    this.tell({ status: "refused", reason: messageOf(error), problem });
  }
}
