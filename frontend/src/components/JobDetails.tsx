import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { RelativeTime } from "@/components/Time";
import { describeExit, describeResources } from "@/lib/describe";
import { formatDuration } from "@/lib/time";
import classes from "@/pages/Job.module.css";

export function JobDetails({ job }: { job: Job }) {
  const parameters = Object.entries(job.parameters);
  const slurm = Object.entries(job.slurm)
    .filter(([name, value]) => name !== "partition" && value !== null && value !== false && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => (value === true ? name : `${name} ${String(value)}`));
  // The parameters reach the program as variables too; once is enough here.
  const env = Object.entries(job.env).filter(([name]) => !name.startsWith("AITNE_PARAM_"));
  return (
    <>
      <dl className={classes.list}>
        <Row name="Resources">{describeResources(job.resources)}</Row>
        <Row name="Time limit">{formatDuration(job.max_duration_s)}</Row>
        {job.nodes.length > 0 && <Row name="Nodes">{job.nodes.join(", ")}</Row>}
        {job.partition !== null && <Row name="Partition">{job.partition}</Row>}
        {job.state === "QUEUED" && job.priority !== null && <Row name="Priority">{job.priority}</Row>}
        {slurm.length > 0 && <Row name="Slurm">{slurm.join(", ")}</Row>}
        <Row name="Project">{job.project}</Row>
        <Row name="Owner">{job.account === null || job.account === job.owner ? job.owner : `${job.owner} (as ${job.account})`}</Row>
        {job.template !== null && (
          <Row name="Template">
            {job.template} {job.template_version}
          </Row>
        )}
        <Row name="Image">{job.image}</Row>
        {job.workdir !== null && (
          <Row name="Folder">
            <span className="mono">{job.workdir}</span>
          </Row>
        )}
        {job.array !== null && <Row name="Array">{job.array}</Row>}
        <Row name="Created">
          <RelativeTime at={job.created_at} />
        </Row>
        {job.ended_at !== null && (
          <Row name="Ended">
            <span>
              <RelativeTime at={job.ended_at} />
              {describeExit(job) !== "" && `, ${describeExit(job)}`}
            </span>
          </Row>
        )}
        {job.expires_at !== null && job.ended_at === null && (
          <Row name="Time is up">
            <RelativeTime at={job.expires_at} />
          </Row>
        )}
        {job.attempt > 1 && <Row name="Attempt">{job.attempt}</Row>}
        {job.restart_count > 0 && <Row name="Restarts">{job.restart_count}</Row>}
        {job.after.length > 0 && (
          <Row name="After">
            <span>
              {job.after.map((id) => (
                <Link key={id} to="/jobs/$jobId" params={{ jobId: id }} className="mono" style={{ marginRight: 8 }}>
                  {id.slice(0, 8)}
                </Link>
              ))}
            </span>
          </Row>
        )}
        <Row name="Job ID">
          <Identifier value={job.id} what="the job's ID" />
        </Row>
        {job.scheduler_id !== null && (
          <Row name="Scheduler's ID">
            <Identifier value={job.scheduler_id} what="the scheduler's ID" />
          </Row>
        )}
      </dl>
      {parameters.length > 0 && (
        <Block title="Parameters">{parameters.map(([name, value]) => `${name} = ${String(value)}`).join("\n")}</Block>
      )}
      {job.commands.length > 0 && <Block title="Commands">{job.commands.join("\n")}</Block>}
      {env.length > 0 && <Block title="Environment">{env.map(([name, value]) => `${name}=${value}`).join("\n")}</Block>}
    </>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Identifier({ value, what }: { value: string; what: string }) {
  return (
    <>
      <span className="mono truncate" title={value} style={{ fontSize: 12.5 }}>
        {value}
      </span>
      <CopyButton what={what} text={value} />
    </>
  );
}

function Block({ title, children }: { title: string; children: string }) {
  return (
    <div style={{ marginTop: 16 }}>
      <Text size="sm" c="dimmed">
        {title}
      </Text>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <pre className={classes.code} tabIndex={0} aria-label={title}>
        {children}
      </pre>
    </div>
  );
}
