import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { findLines, firstError, lastLineWith, matcher } from "./log-find";
import type { LogStream } from "./log-stream";

export interface LogSearch {
  typed: string;
  setTyped: (text: string) => void;
  isRegex: boolean;
  setIsRegex: (on: boolean) => void;
  /** Null if the search is empty or the expression is invalid. */
  expression: RegExp | null;
  invalid: boolean;
  hits: readonly number[];
  hitSet: ReadonlySet<number>;
  position: number;
  /** The current line: a match, or the error. */
  line: number | null;
  step: (by: 1 | -1) => void;
  error: number | null;
  showError: () => void;
}

/** The search in the log; `show` scrolls to a line, `errorText` is the text of the error line if it is known. */
export function useLogSearch(stream: LogStream, version: number, errorText: string | null, show: (line: number) => void): LogSearch {
  const [typed, setTypedState] = useState("");
  const [isRegex, setIsRegexState] = useState(false);
  const [position, setPosition] = useState(-1);
  const [atError, setAtError] = useState(false);
  const text = useDeferredValue(typed);
  const deferredVersion = useDeferredValue(version);
  const expression = useMemo(() => matcher({ text, pattern: isRegex }), [text, isRegex]);
  const hits = useMemo(() => (deferredVersion < 0 ? [] : findLines(stream.buffer.lines(), expression)), [stream, expression, deferredVersion]);
  const first = hits[0];
  const searched = useRef<RegExp | null>(null);
  useEffect(() => {
    // The first match of a new search comes into view; later lines of a running job move nothing.
    if (expression !== null && first === undefined) return;
    if (expression !== null && first !== undefined && searched.current !== expression) show(first);
    searched.current = expression;
  }, [expression, first, show]);
  const hitSet = useMemo(() => new Set(hits), [hits]);
  const error = useMemo(() => {
    if (deferredVersion < 0) return null;
    const lines = stream.buffer.lines();
    return (errorText === null ? null : lastLineWith(lines, errorText)) ?? firstError(lines);
  }, [stream, deferredVersion, errorText]);
  const reset = () => {
    setPosition(-1);
    setAtError(false);
  };
  return {
    typed,
    setTyped: (next) => {
      setTypedState(next);
      reset();
    },
    isRegex,
    setIsRegex: (on) => {
      setIsRegexState(on);
      reset();
    },
    expression,
    invalid: text !== "" && expression === null,
    hits,
    hitSet,
    position,
    line: atError ? error : (hits[position] ?? null),
    step: (by) => {
      if (hits.length === 0) return;
      // The first step backwards starts at the last match, near the usual position of the reader.
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
