/**
 * The last lines of a growing log. Bytes arrive with any boundaries. A carriage return rewrites its line, as
 * for a progress bar on a terminal. The cost of appending depends only on the appended bytes.
 */

export interface LogLimits {
  maxLines: number;
  /** Longer lines are split, so that a file without newlines cannot block the page. */
  maxLineLength: number;
}

export const LOG_LIMITS: LogLimits = { maxLines: 200_000, maxLineLength: 4_000 };

export class LogBuffer {
  /** Complete lines, then the unfinished one if it is not empty. Replaced, never mutated, per snapshot. */
  private complete: string[] = [];
  private open = "";
  private decoder = new TextDecoder();
  private droppedLines = 0;
  private revision = 0;

  constructor(private readonly limits: LogLimits = LOG_LIMITS) {}

  /** Number of lines dropped at the top. */
  get dropped(): number {
    return this.droppedLines;
  }

  /** Increases with every change; views compare it. */
  get version(): number {
    return this.revision;
  }

  get length(): number {
    return this.complete.length + (this.open === "" ? 0 : 1);
  }

  line(index: number): string {
    return this.complete[index] ?? (index === this.complete.length ? visible(this.open) : "");
  }

  /** All lines, for copying and searching. */
  lines(): readonly string[] {
    return this.open === "" ? this.complete : [...this.complete, visible(this.open)];
  }

  append(bytes: Uint8Array): void {
    this.appendText(this.decoder.decode(bytes, { stream: true }));
  }

  appendText(text: string): void {
    if (text === "") return;
    this.revision += 1;
    const parts = (this.open + text).split("\n");
    this.open = parts.pop() ?? "";
    for (const part of parts) this.push(part);
    if (this.open.length > this.limits.maxLineLength) {
      // Keep only what a carriage return has not overwritten yet before breaking the line.
      this.open = tail(this.open);
      while (this.open.length > this.limits.maxLineLength) {
        this.complete.push(this.open.slice(0, this.limits.maxLineLength));
        this.open = this.open.slice(this.limits.maxLineLength);
      }
    }
    // Trim with some slack, so that a steady stream does not copy the array for every chunk.
    const over = this.complete.length - this.limits.maxLines;
    if (over > this.limits.maxLines / 10) {
      this.complete = this.complete.slice(over);
      this.droppedLines += over;
    }
  }

  clear(): void {
    this.complete = [];
    this.open = "";
    this.decoder = new TextDecoder();
    this.droppedLines = 0;
    this.revision += 1;
  }

  private push(raw: string): void {
    let line = visible(raw);
    while (line.length > this.limits.maxLineLength) {
      this.complete.push(line.slice(0, this.limits.maxLineLength));
      line = line.slice(this.limits.maxLineLength);
    }
    this.complete.push(line);
  }
}

/** The text of a line that a terminal would show after its carriage returns. */
function visible(raw: string): string {
  if (!raw.includes("\r")) return raw;
  return tail(raw.replace(/\r+$/, ""));
}

function tail(raw: string): string {
  const at = raw.replace(/\r+$/, "").lastIndexOf("\r");
  return at < 0 ? raw : raw.slice(at + 1);
}
