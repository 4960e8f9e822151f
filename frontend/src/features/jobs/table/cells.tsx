import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight, Cpu, Layers, NotebookPen } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { NodeLinks } from "@/components/NodeLinks";
import { StateBadge } from "@/components/StateBadge";
import { GpuIdleMark } from "@/features/jobs/GpuIdle";
import { OutsideBadge } from "@/features/jobs/OutsideBadge";
import { useSlowNow } from "@/hooks/use-now";
import { translateServerText } from "@/i18n/server";
import { describeResources, nameOfJob } from "@/lib/describe";
import { shortId } from "@/lib/id";
import { isTerminal } from "@/lib/states";
import { formatAbsolute, formatRelative } from "@/lib/time";
import { formatBytes } from "@/lib/units";
import { withoutMarks } from "@/lib/without-marks";
import type { ColumnName } from "./job-columns";
import { RunTime } from "./RunTime";
import classes from "./JobTable.module.css";

/** A relative time with the tooltip of the browser, which is cheaper in a table with hundreds of rows. */
function Timestamp({ at }: { at: string }) {
  const now = useSlowNow();
  const date = new Date(at);
  return (
    <time dateTime={at} title={formatAbsolute(date)}>
      {formatRelative(date, now)}
    </time>
  );
}

/** A message of the platform, whole in the tooltip. */
function Message({ text }: { text: string }) {
  const message = translateServerText(text);
  return (
    <span lang={message.lang} title={withoutMarks(message.text)}>
      <CodeText>{message.text}</CodeText>
    </span>
  );
}

const timestamp = (at: string | null) => (at === null ? null : <Timestamp at={at} />);

/** The content of each column; the name has a separate cell. */
const CELLS: Record<Exclude<ColumnName, "name">, (job: Job) => ReactNode> = {
  state: (job) => <StateBadge job={job} />,
  owner: (job) => job.owner,
  project: (job) => job.project,
  template: (job) => job.template,
  image: (job) => (job.image === "bare" ? null : job.image),
  resources: (job) => (
    <span title={describeResources(job.resources)}>
      {describeResources(job.resources)} {job.array !== null && <ArrayMark array={job.array} narrow />}
    </span>
  ),
  gpus: (job) => job.resources.nodes * job.resources.gpu.count || null,
  nodes: (job) => (job.nodes.length === 0 ? null : <NodeLinks nodes={job.nodes} short />),
  placement: (job) => (job.nodes.length > 0 || isTerminal(job.state) || job.message === null ? <NodeLinks nodes={job.nodes} short /> : <Message text={job.message} />),
  partition: (job) => job.partition,
  created: (job) => timestamp(job.created_at),
  started: (job) => timestamp(job.started_at),
  ended: (job) => timestamp(job.ended_at),
  duration: (job) => <RunTime job={job} />,
  folder: (job) => (job.folder_bytes === null ? null : formatBytes(job.folder_bytes)),
  message: (job) => (job.message === null ? null : <Message text={job.message} />),
  id: (job) => <code title={job.id}>{shortId(job)}</code>,
  scheduler_id: (job) => job.scheduler_id,
};

export function cellOf(column: string, job: Job): ReactNode {
  return CELLS[column as keyof typeof CELLS](job);
}

interface NameProps {
  job: Job;
  /** For an array job: whether its tasks are expanded below. */
  expanded?: boolean | undefined;
  onToggle: () => void;
}

export function NameCell({ job, expanded, onToggle }: NameProps) {
  const { t } = useTranslation();
  return (
    <span className={classes.nameCell}>
      {expanded !== undefined && (
        <ActionIcon
          className={classes.above ?? ""}
          variant="subtle"
          color="gray"
          size={24}
          aria-expanded={expanded}
          aria-label={t("Tasks of {{name}}", { name: job.name })}
          onClick={onToggle}
        >
          {expanded ? <ChevronDown size={16} /> : <ChevronRight size={16} />}
        </ActionIcon>
      )}
      <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={`${classes.link ?? ""} truncate`} title={nameOfJob(job)} preload={false}>
        {nameOfJob(job)}
      </Link>
      <OutsideBadge job={job} short />
      <GpuIdleMark job={job} />
      {job.type === "session" && <NotebookPen size={14} className={classes.mark} aria-label={t("session")} />}
      {job.session_id !== null && <Cpu size={14} className={classes.mark} aria-label={t("ranks of a session")} />}
      {job.array !== null && <ArrayMark array={job.array} />}
    </span>
  );
}

/** The indices of an array job. On narrow screens the name needs the room, and the indices are beside the resources. */
function ArrayMark({ array, narrow = false }: { array: string; narrow?: boolean }) {
  return (
    <span className={`${classes.array ?? ""} ${(narrow ? classes.narrow : classes.wide) ?? ""}`}>
      <Layers size={13} aria-hidden style={{ verticalAlign: "-2px" }} /> {array}
    </span>
  );
}
