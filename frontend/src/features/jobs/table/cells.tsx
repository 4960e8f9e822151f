import { Link } from "@tanstack/react-router";
import { Cpu, Layers, NotebookPen } from "lucide-react";
import { type ReactNode, useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { NodeLinks } from "@/components/NodeLinks";
import { StateBadge } from "@/components/StateBadge";
import type { Column } from "@/components/table";
import { GpuIdleMark } from "@/features/jobs/GpuIdle";
import { OutsideBadge } from "@/features/jobs/OutsideBadge";
import { useSlowNow } from "@/hooks/use-now";
import { translateServerText } from "@/i18n/server";
import { describeResources, nameOfJob } from "@/lib/describe";
import { shortId } from "@/lib/id";
import type { JobSort } from "@/lib/job-filters";
import { isTerminal } from "@/lib/states";
import { formatAbsolute, formatRelative } from "@/lib/time";
import { formatBytes } from "@/lib/units";
import { withoutMarks } from "@/lib/without-marks";
import type { ColumnName, JobColumn } from "./job-columns";
import { RunTime } from "./RunTime";
import classes from "./JobCells.module.css";

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

/** The content of each column. */
const CELLS: Record<ColumnName, (job: Job) => ReactNode> = {
  name: (job) => <NameCell job={job} />,
  state: (job) => <StateBadge job={job} />,
  owner: (job) => job.owner,
  project: (job) => job.project,
  template: (job) => job.template,
  image: (job) => (job.image === "bare" ? null : job.image),
  resources: (job) => (
    <span title={describeResources(job.resources)}>
      {describeResources(job.resources)} {job.array !== null && job.array_task_id === null && <ArrayMark array={job.array} narrow />}
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

/** The columns with their cells, for a table of jobs. */
export function useJobColumns(columns: readonly JobColumn[]): readonly Column<Job, JobSort>[] {
  const { t } = useTranslation();
  return useMemo(
    () => columns.map(({ name, label, ...column }) => ({ ...column, key: name, header: t(label), cell: CELLS[name as ColumnName], dim: name !== "name" && name !== "state" })),
    [columns, t],
  );
}

function NameCell({ job }: { job: Job }) {
  const { t } = useTranslation();
  return (
    <span className={classes.nameCell}>
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
