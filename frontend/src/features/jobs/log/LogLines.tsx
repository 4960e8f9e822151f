import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useLayoutEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import i18next from "i18next";
import { messageOf } from "@/api/problem";
import type { LogSnapshot, LogStream } from "./log-stream";
import { LogLine } from "./LogLine";
import classes from "./LogView.module.css";

const LINE_PX = 20;
/** Lines drawn above and below what is visible. */
const OVERSCAN = 20;
/** Distance from the end within which the view counts as at the end. */
const END_PX = 30;

export interface LinesProps {
  stream: LogStream;
  snapshot: LogSnapshot;
  /** A line to scroll to; a new object scrolls again. */
  target: { line: number } | null;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  hits: ReadonlySet<number>;
  currentLine: number | null;
  expression: RegExp | null;
  waiting: boolean;
  onKeyDown: (event: KeyboardEvent) => void;
}

/** Lines of fixed height without wrapping, the fastest rendering. */
export function UnwrappedLines(props: LinesProps) {
  const { stream, snapshot, target, follow, hits, currentLine, expression } = props;
  const { buffer } = stream;
  const view = useRef<HTMLDivElement>(null);
  const [viewport, setViewport] = useState({ top: 0, height: 800 });
  const dropped = useRef(0);
  const lastTop = useRef(0);
  const count = buffer.length;

  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    if (follow) {
      element.scrollTop = element.scrollHeight;
    } else if (buffer.dropped !== dropped.current) {
      // Lines were dropped at the top: the visible lines keep their position.
      element.scrollTop -= (buffer.dropped - dropped.current) * LINE_PX;
    }
    dropped.current = buffer.dropped;
    lastTop.current = element.scrollTop;
    setViewport((old) => (old.top === element.scrollTop && old.height === element.clientHeight ? old : { top: element.scrollTop, height: element.clientHeight }));
  }, [buffer, snapshot.version, follow]);

  // A resized window or a rotated phone: the end stays in view, and the visible lines are rendered.
  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (follow) element.scrollTop = element.scrollHeight;
      lastTop.current = element.scrollTop;
      setViewport({ top: element.scrollTop, height: element.clientHeight });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [follow]);

  useLayoutEffect(() => {
    const element = view.current;
    if (element && target) element.scrollTop = Math.max(0, target.line * LINE_PX - element.clientHeight / 2);
  }, [target]);

  const onScroll = () => {
    const element = view.current;
    if (!element) return;
    updateFollow(element, lastTop.current, props);
    lastTop.current = element.scrollTop;
    setViewport({ top: element.scrollTop, height: element.clientHeight });
  };
  const first = Math.max(0, Math.floor(viewport.top / LINE_PX) - OVERSCAN);
  const last = Math.min(count, Math.ceil((viewport.top + viewport.height) / LINE_PX) + OVERSCAN);
  return (
    <Frame {...props} view={view} onScroll={onScroll}>
      <div className={classes.canvas} style={{ height: count * LINE_PX + 16 }}>
        {Array.from({ length: Math.max(0, last - first) }, (_, offset) => {
          const index = first + offset;
          return (
            <LogLine key={index + buffer.dropped} style={{ top: index * LINE_PX + 8 }} line={buffer.line(index)} expression={hits.has(index) ? expression : null} current={index === currentLine} />
          );
        })}
      </div>
    </Frame>
  );
}

/** Wrapped lines of variable height. */
export function WrappedLines(props: LinesProps) {
  const { stream, snapshot, target, follow, hits, currentLine, expression } = props;
  const { buffer } = stream;
  const view = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  const count = buffer.length;
  // eslint-disable-next-line react-hooks/incompatible-library -- its results are not memoized
  const rows = useVirtualizer({
    count,
    getScrollElement: () => view.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
    paddingStart: 8,
    paddingEnd: 8,
    getItemKey: (index) => index + buffer.dropped,
  });
  useLayoutEffect(() => {
    if (follow && count > 0) rows.scrollToIndex(count - 1, { align: "end" });
  }, [rows, count, snapshot.version, follow]);
  useLayoutEffect(() => {
    if (target) rows.scrollToIndex(target.line, { align: "center" });
  }, [rows, target]);
  const onScroll = () => {
    const element = view.current;
    if (!element) return;
    updateFollow(element, lastTop.current, props);
    lastTop.current = element.scrollTop;
  };
  return (
    <Frame {...props} view={view} onScroll={onScroll}>
      <div style={{ position: "relative", height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((item) => (
          <div key={item.key} ref={rows.measureElement} data-index={item.index} className={classes.wrappedItem} style={{ transform: `translateY(${item.start}px)` }}>
            <LogLine wrapped line={buffer.line(item.index)} expression={hits.has(item.index) ? expression : null} current={item.index === currentLine} />
          </div>
        ))}
      </div>
    </Frame>
  );
}

/** Scrolling up stops following; scrolling to the end resumes it. */
function updateFollow(element: HTMLElement, lastTop: number, { follow, onFollow }: LinesProps): void {
  const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < END_PX;
  if (element.scrollTop < lastTop - 2 && !atEnd) onFollow(false);
  else if (atEnd && !follow) onFollow(true);
}

interface FrameProps extends LinesProps {
  view: React.RefObject<HTMLDivElement | null>;
  onScroll: () => void;
  children: React.ReactNode;
}

function Frame({ stream, snapshot, waiting, view, onScroll, onKeyDown, children }: FrameProps) {
  const { t } = useTranslation();
  const empty = stream.buffer.length === 0;
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- buttons above have the same functions as the keys
    <div
      ref={view}
      className={classes.view}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
      tabIndex={0}
      role="region"
      aria-label={t("Log")}
      data-testid="job-log"
    >
      {empty ? (
        <div className={classes.message} role="status">
          {emptyMessage(snapshot, waiting)}
        </div>
      ) : (
        children
      )}
      {snapshot.status === "broken" && !empty && (
        <div className={classes.top} role="status" style={{ position: "sticky", bottom: 0 }}>
          {t("Log stream interrupted: {{error}}", { error: messageOf(snapshot.error) })}
        </div>
      )}
    </div>
  );
}

function emptyMessage(snapshot: LogSnapshot, waiting: boolean): string {
  if (snapshot.status === "broken") return messageOf(snapshot.error);
  if (snapshot.status === "connecting") return i18next.t("Loading log…");
  return waiting ? i18next.t("No output yet") : i18next.t("No output");
}
