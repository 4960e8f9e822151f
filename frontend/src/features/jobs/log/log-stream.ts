/** Follows a job's log into a LogBuffer: resumes after interruptions, pauses while the page is hidden. */
import { getRaw } from "@/api/client";
import { ApiProblem } from "@/api/problem";
import { LogBuffer } from "./log-buffer";

/** Bytes of a long log that are fetched at first, from its end. */
export const TAIL_BYTES = 4 * 1024 * 1024;

export type LogStatus = "connecting" | "streaming" | "ended" | "broken";

export interface LogSnapshot {
  version: number;
  status: LogStatus;
  /** Offset of the first fetched byte; above 0, the beginning was not fetched. */
  startOffset: number;
  error: unknown;
}

const RETRY_MS = { first: 1_000, max: 15_000 };

export class LogStream {
  readonly buffer = new LogBuffer();
  private listeners = new Set<() => void>();
  private snapshot: LogSnapshot = { version: 0, status: "connecting", startOffset: 0, error: null };
  private next: number | null;
  private run: AbortController | null = null;
  private frame = 0;
  private failures = 0;
  private complete = false;

  constructor(
    private readonly jobId: string,
    /** Whether to fetch the whole log from its first byte. */
    fromStart: boolean,
    /** Index of the task whose log it is, of an array whose tasks have no pages. */
    private readonly task?: number,
  ) {
    this.next = fromStart ? 0 : null;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getSnapshot = (): LogSnapshot => this.snapshot;

  /** Starts following while the page is visible, until `stop`. */
  start(): void {
    document.addEventListener("visibilitychange", this.onVisibility);
    this.onVisibility();
  }

  /** Whether the job has ended: only then does the end of the stream mean the end of the log. */
  setComplete(complete: boolean): void {
    this.complete = complete;
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.run?.abort();
    this.run = null;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** Closes the connection of a hidden page: browsers allow only six per origin. */
  private onVisibility = () => {
    if (document.hidden) {
      this.run?.abort();
      this.run = null;
    } else if (this.run === null && this.snapshot.status !== "ended") {
      this.run = new AbortController();
      void this.follow(this.run.signal);
    }
  };

  private async follow(signal: AbortSignal): Promise<void> {
    while (!stopped(signal)) {
      try {
        await this.read(signal);
        if (this.complete) {
          this.publish({ status: "ended", error: null });
          return;
        }
        await pause(RETRY_MS.first, signal);
      } catch (error) {
        if (stopped(signal)) return;
        if (error instanceof ApiProblem && !error.unreachable && error.status !== 429) {
          this.publish({ status: "broken", error });
          return;
        }
        this.failures += 1;
        this.publish({ status: "broken", error });
        await pause(Math.min(RETRY_MS.max, RETRY_MS.first * 2 ** (this.failures - 1)), signal);
      }
    }
  }

  /** Reads one connection until it ends: the log is complete, or the platform restarts. */
  private async read(signal: AbortSignal): Promise<void> {
    const from = this.next === null ? `tail=${TAIL_BYTES}` : `offset=${this.next}`;
    const response = await getRaw(`/jobs/${this.jobId}/logs?follow=true&${from}${ofTask(this.task)}`, signal);
    const offset = Number(response.headers.get("X-Log-Offset") ?? this.next ?? 0);
    let skipPartialLine = false;
    if (this.next === null) {
      skipPartialLine = offset > 0;
      this.publish({ startOffset: offset });
    }
    this.next = offset;
    this.failures = 0;
    this.publish({ status: "streaming", error: null });
    if (response.body === null) return;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.next += value.length;
      let bytes = value;
      if (skipPartialLine) {
        const newline = bytes.indexOf(10);
        if (newline < 0) continue;
        bytes = bytes.subarray(newline + 1);
        skipPartialLine = false;
      }
      this.buffer.append(bytes);
      this.schedule();
    }
  }

  /** Publishes at most once per frame. */
  private schedule(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.publish({});
    });
  }

  private publish(change: Partial<LogSnapshot>): void {
    this.snapshot = { ...this.snapshot, ...change, version: this.buffer.version };
    for (const listener of this.listeners) listener();
  }
}

/** Whether the signal is aborted; a function, because the value can change during an `await`. */
function stopped(signal: AbortSignal): boolean {
  return signal.aborted;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
}

/** Maximum size of one response of the API. */
const CHUNK_BYTES = 8 * 1024 * 1024;

/** Fetches the whole log in chunks. */
export async function fetchWholeLog(jobId: string, task?: number): Promise<Blob> {
  const chunks: ArrayBuffer[] = [];
  let offset = 0;
  for (;;) {
    const response = await getRaw(`/jobs/${jobId}/logs?offset=${offset}&limit=${CHUNK_BYTES}${ofTask(task)}`);
    const chunk = await response.arrayBuffer();
    chunks.push(chunk);
    offset += chunk.byteLength;
    if (chunk.byteLength === 0 || offset >= Number(response.headers.get("X-Log-Size") ?? 0)) {
      return new Blob(chunks, { type: "text/plain" });
    }
  }
}

function ofTask(task: number | undefined): string {
  return task === undefined ? "" : `&task=${task}`;
}
