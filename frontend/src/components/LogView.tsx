import { ActionIcon, Anchor, Button, Switch, TextInput, Tooltip } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { ArrowDown, ArrowDownToLine, ChevronDown, ChevronUp, Search } from "lucide-react";
import {
  memo,
  useDeferredValue,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { messageOf } from "@/api/problem";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { notifyProblem } from "@/components/notify";
import { ansiPieces, stripAnsi } from "@/lib/ansi";
import { findLines } from "@/lib/log-buffer";
import { fetchWholeLog, type LogSnapshot, LogStream } from "@/lib/log-stream";
import { isActive, isTerminal } from "@/lib/states";
import { formatBytes } from "@/lib/units";
import classes from "./LogView.module.css";

const LINE_PX = 20;
/** Lines drawn above and below what is visible. */
const OVERSCAN = 20;
/** Nearer to the end than this counts as being at the end. */
const END_PX = 30;

export function LogView({ job }: { job: Job }) {
  const [fromStart, setFromStart] = useState(false);
  const begun = isActive(job.state) || isTerminal(job.state) || job.state === "UNKNOWN";
  if (!begun) {
    return (
      <div className={classes.view} data-testid="job-log">
        <div className={classes.message}>The log begins when the job starts.</div>
      </div>
    );
  }
  return (
    <Log
      key={`${job.id}-${job.attempt}-${job.restart_count}-${String(fromStart)}`}
      job={job}
      fromStart={fromStart}
      onFromStart={() => setFromStart(true)}
    />
  );
}

interface LogProps {
  job: Job;
  fromStart: boolean;
  onFromStart: () => void;
}

function Log({ job, fromStart, onFromStart }: LogProps) {
  const [stream] = useState(() => new LogStream(job.id, fromStart));
  const snapshot = useSyncExternalStore(stream.subscribe, stream.getSnapshot);
  useEffect(() => {
    stream.start();
    return () => stream.stop();
  }, [stream]);

  useEffect(() => stream.setComplete(isTerminal(job.state)), [stream, job.state]);

  const [follow, setFollow] = useState(true);
  const [target, setTarget] = useState<{ line: number } | null>(null);
  const search = useLogSearch(stream, snapshot.version, (line) => {
    setFollow(false);
    setTarget({ line });
  });

  return (
    <>
      <div className={classes.tools}>
        <SearchField search={search} />
        <span className={classes.spacer} />
        <Switch
          size="xs"
          label="Follow"
          checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)}
          data-testid="log-follow"
        />
        <CopyButton what="the log" text={() => stream.buffer.lines().map(stripAnsi).join("\n")} />
        <DownloadButton job={job} />
      </div>
      {snapshot.startOffset > 0 && (
        <div className={classes.top}>
          The first {formatBytes(snapshot.startOffset)} are not shown.{" "}
          <Anchor component="button" type="button" size="sm" onClick={onFromStart}>
            Show from the start
          </Anchor>
        </div>
      )}
      <div className={classes.frame}>
        <Lines
          stream={stream}
          snapshot={snapshot}
          target={target}
          follow={follow}
          onFollow={setFollow}
          hits={search.hitSet}
          hitNow={search.line}
          text={search.text}
          waiting={!isTerminal(job.state)}
        />
        {!follow && !isTerminal(job.state) && (
          <Button
            className={classes.jump ?? ""}
            size="xs"
            radius="xl"
            leftSection={<ArrowDown size={14} />}
            onClick={() => setFollow(true)}
          >
            Newest
          </Button>
        )}
      </div>
    </>
  );
}

interface LinesProps {
  stream: LogStream;
  snapshot: LogSnapshot;
  /** A line to bring into view; a new object does it again. */
  target: { line: number } | null;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  hits: ReadonlySet<number>;
  hitNow: number | null;
  text: string;
  waiting: boolean;
}

function Lines({ stream, snapshot, target, follow, onFollow, hits, hitNow, text, waiting }: LinesProps) {
  const { buffer } = stream;
  const view = useRef<HTMLDivElement>(null);
  const [window_, setWindow] = useState({ top: 0, height: 800 });
  const dropped = useRef(0);
  const lastTop = useRef(0);
  const count = buffer.length;

  const measure = () => {
    const element = view.current;
    if (element) setWindow({ top: element.scrollTop, height: element.clientHeight });
  };

  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    if (follow) {
      element.scrollTop = element.scrollHeight;
    } else if (buffer.dropped !== dropped.current) {
      // Lines fell out at the top: what is being read stays where it is.
      element.scrollTop -= (buffer.dropped - dropped.current) * LINE_PX;
    }
    dropped.current = buffer.dropped;
    lastTop.current = element.scrollTop;
    setWindow((old) =>
      old.top === element.scrollTop && old.height === element.clientHeight
        ? old
        : { top: element.scrollTop, height: element.clientHeight },
    );
  }, [buffer, snapshot.version, follow]);

  useLayoutEffect(() => {
    const element = view.current;
    if (element && target) element.scrollTop = Math.max(0, target.line * LINE_PX - element.clientHeight / 2);
  }, [target]);

  const onScroll = () => {
    const element = view.current;
    if (!element) return;
    const atEnd = element.scrollHeight - element.scrollTop - element.clientHeight < END_PX;
    if (element.scrollTop < lastTop.current - 2 && !atEnd) onFollow(false);
    else if (atEnd && !follow) onFollow(true);
    lastTop.current = element.scrollTop;
    measure();
  };

  const first = Math.max(0, Math.floor(window_.top / LINE_PX) - OVERSCAN);
  const last = Math.min(count, Math.ceil((window_.top + window_.height) / LINE_PX) + OVERSCAN);
  return (
    <div
      ref={view}
      className={classes.view}
      onScroll={onScroll}
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
      tabIndex={0}
      role="region"
      aria-label="Log"
      data-testid="job-log"
    >
      {count === 0 ? (
        <div className={classes.message} role="status">
          {emptyMessage(snapshot, waiting)}
        </div>
      ) : (
        <div className={classes.canvas} style={{ height: count * LINE_PX + 16 }}>
          {Array.from({ length: Math.max(0, last - first) }, (_, offset) => {
            const index = first + offset;
            return (
              <Line
                key={index + buffer.dropped}
                top={index * LINE_PX + 8}
                line={buffer.line(index)}
                mark={hits.has(index) ? text : ""}
                now={index === hitNow}
              />
            );
          })}
        </div>
      )}
      {snapshot.status === "broken" && count > 0 && (
        <div className={classes.top} role="status" style={{ position: "sticky", bottom: 0 }}>
          The log is interrupted: {messageOf(snapshot.error)}
        </div>
      )}
    </div>
  );
}

function emptyMessage(snapshot: LogSnapshot, waiting: boolean): string {
  if (snapshot.status === "broken") return messageOf(snapshot.error);
  if (snapshot.status === "connecting") return "Fetching the log…";
  return waiting ? "Nothing has been written yet." : "It wrote nothing.";
}

const Line = memo(function Line({ top, line, mark, now }: { top: number; line: string; mark: string; now: boolean }) {
  const hit = now ? classes.hitNow : mark === "" ? "" : classes.hit;
  return (
    <div className={`${classes.line ?? ""} ${hit ?? ""}`} style={{ top }}>
      {mark === ""
        ? ansiPieces(line).map((piece, index) =>
            piece.style === "" ? (
              piece.text
            ) : (
              <span key={index} className={piece.style}>
                {piece.text}
              </span>
            ),
          )
        : marked(stripAnsi(line), mark)}
    </div>
  );
});

function marked(line: string, text: string) {
  const parts: React.ReactNode[] = [];
  const lower = line.toLowerCase();
  const wanted = text.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0 && parts.length < 400; at = lower.indexOf(wanted, from)) {
    parts.push(line.slice(from, at), <mark key={at}>{line.slice(at, at + text.length)}</mark>);
    from = at + text.length;
  }
  parts.push(line.slice(from));
  return parts;
}

interface LogSearch {
  typed: string;
  text: string;
  setTyped: (text: string) => void;
  hits: readonly number[];
  hitSet: ReadonlySet<number>;
  position: number;
  line: number | null;
  step: (by: 1 | -1) => void;
}

function useLogSearch(stream: LogStream, version: number, show: (line: number) => void): LogSearch {
  const [typed, setTypedState] = useState("");
  const [position, setPosition] = useState(-1);
  const text = useDeferredValue(typed);
  const seenVersion = useDeferredValue(version);
  const hits = useMemo(
    () => (seenVersion < 0 ? [] : findLines(stream.buffer.lines(), text)),
    [stream, text, seenVersion],
  );
  const hitSet = useMemo(() => new Set(hits), [hits]);
  return {
    typed,
    text,
    setTyped: (next) => {
      setTypedState(next);
      setPosition(-1);
    },
    hits,
    hitSet,
    position,
    line: hits[position] ?? null,
    step: (by) => {
      if (hits.length === 0) return;
      // The first step backwards begins at the newest hit, where the reader usually is.
      const next = position < 0 ? (by > 0 ? 0 : hits.length - 1) : (position + by + hits.length) % hits.length;
      setPosition(next);
      const line = hits[next];
      if (line !== undefined) show(line);
    },
  };
}

function SearchField({ search }: { search: LogSearch }) {
  const { hits, position, typed } = search;
  const found = hits.length === 0 ? "none" : position < 0 ? `${hits.length} lines` : `${position + 1} of ${hits.length}`;
  return (
    <>
      <TextInput
        className={classes.search ?? ""}
        size="xs"
        type="search"
        aria-label="Search the log"
        placeholder="Search"
        leftSection={<Search size={14} />}
        value={typed}
        onChange={(event) => search.setTyped(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") search.step(event.shiftKey ? -1 : 1);
        }}
        data-testid="log-search"
      />
      {typed !== "" && (
        <>
          <span className={`${classes.hits ?? ""} tabular`} role="status">
            {found}
          </span>
          <ActionIcon variant="subtle" color="gray" size={26} aria-label="Previous match" onClick={() => search.step(-1)}>
            <ChevronUp size={16} />
          </ActionIcon>
          <ActionIcon variant="subtle" color="gray" size={26} aria-label="Next match" onClick={() => search.step(1)}>
            <ChevronDown size={16} />
          </ActionIcon>
        </>
      )}
    </>
  );
}

function DownloadButton({ job }: { job: Job }) {
  const download = useMutation({
    mutationFn: () => fetchWholeLog(job.id),
    onSuccess: (blob) => {
      const url = URL.createObjectURL(blob);
      const link = document.createElement("a");
      link.href = url;
      link.download = `${job.name.replace(/[^\w.-]+/g, "_").slice(0, 60)}-${job.id.slice(0, 8)}.log`;
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
    },
    onError: (error) => notifyProblem("The log was not downloaded", error),
  });
  return (
    <Tooltip label="Download the whole log">
      <ActionIcon
        variant="subtle"
        color="gray"
        size={26}
        aria-label="Download the whole log"
        loading={download.isPending}
        onClick={() => download.mutate()}
      >
        <ArrowDownToLine size={15} />
      </ActionIcon>
    </Tooltip>
  );
}
