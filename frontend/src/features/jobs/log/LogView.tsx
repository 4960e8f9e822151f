import { ActionIcon, Anchor, Button, Switch, TextInput, Tooltip } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { ArrowDown, ArrowDownToLine, ChevronDown, ChevronUp, CircleAlert, Regex, Search, WrapText } from "lucide-react";
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";
import { failureQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { notifyProblem } from "@/components/notify";
import { shortId } from "@/lib/id";
import { isActive, isFailure, isTerminal } from "@/lib/states";
import { formatBytes } from "@/lib/units";
import { stripAnsi } from "./ansi";
import { fetchWholeLog, LogStream } from "./log-stream";
import { UnwrappedLines, WrappedLines } from "./LogLines";
import { type LogSearch, useLogSearch } from "./use-log-search";
import classes from "./LogView.module.css";

interface Props {
  job: Job;
  /** A line to show, by its text; a new object shows it again. */
  target?: { line: string } | null;
  /** Index of the task whose log it is, of an array whose tasks have no pages. */
  task?: number | undefined;
}

export function LogView({ job, target = null, task }: Props) {
  const { t } = useTranslation();
  const [fromStart, setFromStart] = useState(false);
  const hasLog = isActive(job.state) || isTerminal(job.state) || job.state === "UNKNOWN";
  if (!hasLog) {
    return (
      <div className={classes.view} data-testid="job-log">
        <div className={classes.message}>{t("The log is available when the job starts.")}</div>
      </div>
    );
  }
  return (
    <Log
      key={`${job.id}-${String(task)}-${job.attempt}-${job.restart_count}-${String(fromStart)}`}
      job={job}
      task={task}
      fromStart={fromStart}
      wanted={target}
      onFromStart={() => setFromStart(true)}
    />
  );
}

interface LogProps {
  job: Job;
  task: number | undefined;
  fromStart: boolean;
  wanted: { line: string } | null;
  onFromStart: () => void;
}

function Log({ job, task, fromStart, wanted, onFromStart }: LogProps) {
  const { t } = useTranslation();
  const [stream] = useState(() => new LogStream(job.id, fromStart, task));
  const snapshot = useSyncExternalStore(stream.subscribe, stream.getSnapshot);
  useEffect(() => {
    stream.start();
    return () => stream.stop();
  }, [stream]);

  useEffect(() => stream.setComplete(isTerminal(job.state)), [stream, job.state]);

  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useLocalStorage({ key: "aitne-log-wrap", defaultValue: false, getInitialValueInEffect: false });
  const [target, setTarget] = useState<{ line: number } | null>(null);
  const failure = useQuery({ ...failureQuery(job.id, job.version), enabled: isFailure(job.state) }).data;
  const errorText = wanted?.line ?? failure?.line?.text ?? null;
  const search = useLogSearch(stream, snapshot.version, errorText, (line) => {
    setFollow(false);
    setTarget({ line });
  });
  const { error, showError } = search;
  const shown = useRef<object | null>(null);
  useEffect(() => {
    if (wanted === null || error === null || shown.current === wanted) return;
    shown.current = wanted;
    showError();
  }, [wanted, error, showError]);
  const field = useRef<HTMLInputElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") search.step(1);
    else if (event.key === "N") search.step(-1);
    else if (event.key === "e") search.showError();
    else if (event.key === "w") setWrap(!wrap);
    else if (event.key === "/") field.current?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const Lines = wrap ? WrappedLines : UnwrappedLines;
  return (
    <>
      <div className={classes.tools}>
        <SearchField search={search} field={field} />
        {search.error !== null && (
          <Button
            size="compact-sm"
            variant={isFailure(job.state) ? "light" : "subtle"}
            color="red"
            leftSection={<CircleAlert size={14} />}
            onClick={search.showError}
            data-testid="log-error"
          >
            {t("Jump to error")}
          </Button>
        )}
        <span className={classes.spacer} />
        <Switch
          size="xs"
          label={t("Follow")}
          checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)}
          data-testid="log-follow"
        />
        <Tooltip label={t("Wrap long lines")}>
          <ActionIcon
            variant={wrap ? "light" : "subtle"}
            color={wrap ? "indigo" : "gray"}
            size={26}
            aria-label={t("Wrap long lines")}
            aria-pressed={wrap}
            onClick={() => setWrap(!wrap)}
            data-testid="log-wrap"
          >
            <WrapText size={15} />
          </ActionIcon>
        </Tooltip>
        <CopyButton what={t("the log")} text={() => stream.buffer.lines().map(stripAnsi).join("\n")} />
        <DownloadButton job={job} task={task} />
      </div>
      {snapshot.startOffset > 0 && (
        <div className={classes.top}>
          {t("The first {{size}} are not shown.", { size: formatBytes(snapshot.startOffset) })}{" "}
          <Anchor component="button" type="button" size="sm" underline="always" onClick={onFromStart}>
            {t("Show from the start")}
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
          currentLine={search.line}
          expression={search.expression}
          waiting={!isTerminal(job.state)}
          onKeyDown={onKeyDown}
        />
        {!follow && !isTerminal(job.state) && (
          <Button
            className={classes.jump ?? ""}
            size="xs"
            radius="xl"
            leftSection={<ArrowDown size={14} />}
            onClick={() => setFollow(true)}
          >
            {t("Jump to end")}
          </Button>
        )}
      </div>
    </>
  );
}

function SearchField({ search, field }: { search: LogSearch; field: RefObject<HTMLInputElement | null> }) {
  const { t } = useTranslation();
  const { hits, position, typed } = search;
  const summary = search.invalid
    ? t("invalid expression")
    : hits.length === 0
      ? t("no matches")
      : position < 0
        ? t("{{count}} matches", { count: hits.length })
        : t("{{number}} of {{total}}", { number: position + 1, total: hits.length });
  return (
    <>
      <TextInput
        ref={field}
        className={classes.search ?? ""}
        size="xs"
        type="search"
        aria-label={t("Search the log")}
        placeholder={t("Search")}
        leftSection={<Search size={14} />}
        rightSection={
          <Tooltip label={t("Regular expression")}>
            <ActionIcon
              variant={search.isRegex ? "light" : "subtle"}
              color={search.isRegex ? "indigo" : "gray"}
              size={22}
              aria-label={t("Regular expression")}
              aria-pressed={search.isRegex}
              onClick={() => search.setIsRegex(!search.isRegex)}
            >
              <Regex size={14} />
            </ActionIcon>
          </Tooltip>
        }
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
            {summary}
          </span>
          <ActionIcon variant="subtle" color="gray" size={26} aria-label={t("Previous match")} onClick={() => search.step(-1)}>
            <ChevronUp size={16} />
          </ActionIcon>
          <ActionIcon variant="subtle" color="gray" size={26} aria-label={t("Next match")} onClick={() => search.step(1)}>
            <ChevronDown size={16} />
          </ActionIcon>
        </>
      )}
    </>
  );
}

function DownloadButton({ job, task }: { job: Job; task: number | undefined }) {
  const { t } = useTranslation();
  const download = useMutation({
    mutationFn: () => fetchWholeLog(job.id, task),
    onSuccess: (blob) => {
      const url = URL.createObjectURL(blob);
      const link = document.createElement("a");
      link.href = url;
      link.download = `${job.name.replace(/[^\w.-]+/g, "_").slice(0, 60)}-${shortId(job)}${task === undefined ? "" : `_${task}`}.log`;
      link.click();
      window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
    },
    onError: (error) => notifyProblem(t("Could not download the log"), error),
  });
  return (
    <Tooltip label={t("Download full log")}>
      <ActionIcon
        variant="subtle"
        color="gray"
        size={26}
        aria-label={t("Download full log")}
        loading={download.isPending}
        onClick={() => download.mutate()}
      >
        <ArrowDownToLine size={15} />
      </ActionIcon>
    </Tooltip>
  );
}
