/** Parser of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */

export interface SseMessage {
  id: string | null;
  event: string;
  data: string;
}

/**
 * The browser's own EventSource hides comments and HTTP statuses; this parser lets the connection be
 * monitored by its heartbeat and distinguishes "logged out" from "unreachable".
 */
export class SseParser {
  private rest = "";
  private id: string | null = null;
  private event = "";
  private data: string[] = [];

  /** Returns the messages that this text completes. */
  feed(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.data.length > 0) {
          messages.push({ id: this.id, event: this.event || "message", data: this.data.join("\n") });
        }
        this.event = "";
        this.data = [];
        continue;
      }
      if (line.startsWith(":")) continue;
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") this.data.push(value);
      else if (field === "event") this.event = value;
      else if (field === "id" && !value.includes("\0")) this.id = value;
    }
    return messages;
  }
}
