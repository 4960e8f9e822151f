import { ActionIcon } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight, Layers, NotebookPen } from "lucide-react";
import type { Job } from "@/api/types";
import { RunTime } from "@/components/RunTime";
import { StateBadge } from "@/components/StateBadge";
import { RelativeTime } from "@/components/Time";
import { describeResources } from "@/lib/describe";
import classes from "./table.module.css";

export function JobTableHead({ owner }: { owner: boolean }) {
  return (
    <thead>
      <tr>
        <th scope="col">Name</th>
        <th scope="col">State</th>
        {owner && <th scope="col">Owner</th>}
        <th scope="col">Project</th>
        <th scope="col">Resources</th>
        <th scope="col">Created</th>
        <th scope="col" className={classes.num}>
          Ran for
        </th>
      </tr>
    </thead>
  );
}

interface Props {
  job: Job;
  owner: boolean;
  /** For array jobs: whether their tasks are shown. */
  expanded?: boolean | undefined;
  onToggle?: () => void;
  child?: boolean;
}

export function JobRow({ job, owner, expanded, onToggle, child }: Props) {
  const name = child ? `Task ${job.array_task_id ?? ""}` : job.name;
  return (
    <tr
      className={child ? `${classes.row ?? ""} ${classes.child ?? ""}` : classes.row}
      data-testid="job-row"
      data-job={job.id}
      data-state={job.state}
    >
      <td className={classes.name}>
        <span style={{ display: "flex", alignItems: "center", gap: 8, minWidth: 0 }}>
          {expanded !== undefined && (
            <ActionIcon
              className={classes.above ?? ""}
              variant="subtle"
              color="gray"
              size={24}
              aria-expanded={expanded}
              aria-label={`Tasks of ${job.name}`}
              onClick={onToggle}
            >
              {expanded ? <ChevronDown size={16} /> : <ChevronRight size={16} />}
            </ActionIcon>
          )}
          <Link
            to="/jobs/$jobId"
            params={{ jobId: job.id }}
            className={`${classes.link ?? ""} truncate`}
            title={job.name}
          >
            {name}
          </Link>
          {job.type === "session" && <NotebookPen size={14} style={{ flex: "none" }} className={classes.dim ?? ""} aria-label="session" />}
          {job.array !== null && !child && (
            <span className={`${classes.dim ?? ""} ${classes.nowrap ?? ""}`} style={{ fontSize: 12.5 }}>
              <Layers size={13} aria-hidden style={{ verticalAlign: "-2px" }} /> {job.array}
            </span>
          )}
        </span>
      </td>
      <td>
        <StateBadge job={job} />
      </td>
      {owner && (
        <td className={classes.owner} data-label="Owner">
          {job.owner}
        </td>
      )}
      <td className={classes.wide} data-label="Project">
        {job.project}
      </td>
      <td className={`${classes.wide ?? ""} ${classes.nowrap ?? ""}`} data-label="Resources">
        {describeResources(job.resources)}
      </td>
      <td className={`${classes.dim ?? ""} ${classes.nowrap ?? ""}`} data-label="Created">
        <span className={classes.above}>
          <RelativeTime at={job.created_at} />
        </span>
      </td>
      <td className={`${classes.num ?? ""} tabular`} data-label="Ran for">
        <RunTime job={job} />
      </td>
    </tr>
  );
}
