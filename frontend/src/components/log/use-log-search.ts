import { useDeferredValue, useMemo, useState } from "react";
import { findLines, firstError, matcher } from "@/lib/log-find";
import type { LogStream } from "@/lib/log-stream";

export interface LogSearch {
  typed: string;
  setTyped: (text: string) => void;
  pattern: boolean;
  setPattern: (on: boolean) => void;
  /** Null while there is nothing to look for, or while the expression is none. */
  wanted: RegExp | null;
  wrong: boolean;
  hits: readonly number[];
  hitSet: ReadonlySet<number>;
  position: number;
  /** The line that was stepped to: a hit, or the error. */
  line: number | null;
  step: (by: 1 | -1) => void;
  error: number | null;
  showError: () => void;
}

/** What is looked for in the log; `show` brings a line into view. */
export function useLogSearch(stream: LogStream, version: number, show: (line: number) => void): LogSearch {
  const [typed, setTypedState] = useState("");
  const [pattern, setPatternState] = useState(false);
  const [position, setPosition] = useState(-1);
  const [atError, setAtError] = useState(false);
  const text = useDeferredValue(typed);
  const seenVersion = useDeferredValue(version);
  const wanted = useMemo(() => matcher({ text, pattern }), [text, pattern]);
  const hits = useMemo(() => (seenVersion < 0 ? [] : findLines(stream.buffer.lines(), wanted)), [stream, wanted, seenVersion]);
  const hitSet = useMemo(() => new Set(hits), [hits]);
  const error = useMemo(() => (seenVersion < 0 ? null : firstError(stream.buffer.lines())), [stream, seenVersion]);
  const restart = () => {
    setPosition(-1);
    setAtError(false);
  };
  return {
    typed,
    setTyped: (next) => {
      setTypedState(next);
      restart();
    },
    pattern,
    setPattern: (on) => {
      setPatternState(on);
      restart();
    },
    wanted,
    wrong: text !== "" && wanted === null,
    hits,
    hitSet,
    position,
    line: atError ? error : (hits[position] ?? null),
    step: (by) => {
      if (hits.length === 0) return;
      // The first step backwards begins at the newest hit, where the reader usually is.
      const next = position < 0 ? (by > 0 ? 0 : hits.length - 1) : (position + by + hits.length) % hits.length;
      setPosition(next);
      setAtError(false);
      const line = hits[next];
      if (line !== undefined) show(line);
    },
    error,
    showError: () => {
      if (error === null) return;
      setAtError(true);
      show(error);
    },
  };
}
