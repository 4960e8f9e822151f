import { Anchor, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { jobQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { NodeLinks } from "@/components/NodeLinks";
import { RelativeTime } from "@/components/Time";
import { describeExchange, describeExit, describeRanks, describeResources, describeTimeLimit } from "@/lib/describe";
import { formatDuration } from "@/lib/time";
import { ArrayLimit } from "./ArrayLimit";
import { JobSoftware } from "./JobSoftware";
import { notebookParameters } from "./notebook";
import classes from "@/components/Job.module.css";
import { formatBytes } from "@/lib/units";

/** The time limit that the platform records for a job from outside that has none. */
const NO_LIMIT_S = 10 * 365 * 86_400;

export function JobDetails({ job }: { job: Job }) {
  const { t } = useTranslation();
  const parameters = Object.entries(job.parameters);
  const slurm = Object.entries(job.slurm)
    .filter(([name, value]) => name !== "partition" && value !== null && value !== false && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => (value === true ? name : `${name} ${String(value)}`));
  // Parameters are listed separately; their variables are omitted.
  const env = Object.entries(job.env).filter(([name]) => !name.startsWith("AITNE_PARAM_"));
  const dependencies = (["after", "afterany", "afternotok", "aftercorr"] as const).flatMap((kind) =>
    job[kind].map((id) => [kind, id] as const),
  );
  return (
    <>
      <dl className={classes.list}>
        {job.session_id !== null && <SessionRow id={job.session_id} />}
        <DetailRow name={t("Resources")}>{describeResources(job.resources)}</DetailRow>
        {job.distributed !== null && (
          <DetailRow name={t("Ranks")}>{[describeRanks(job), describeExchange(job)].filter(Boolean).join("; ")}</DetailRow>
        )}
        {job.rank_group !== null && (
          <DetailRow name={t("Released after")}>{job.rank_group.idle_s === null ? t("never for being idle") : t("{{time}} without work", { time: formatDuration(job.rank_group.idle_s) })}</DetailRow>
        )}
        <DetailRow name={t("Time limit")}>{job.max_duration_s === NO_LIMIT_S ? t("none") : describeTimeLimit(job)}</DetailRow>
        {job.nodes.length > 0 && <DetailRow name={t("Nodes")}><span><NodeLinks nodes={job.nodes} /></span></DetailRow>}
        {job.partition !== null && <DetailRow name={t("Partition")}>{job.partition}</DetailRow>}
        {job.state === "QUEUED" && job.priority !== null && <DetailRow name={t("Priority")}>{job.priority}</DetailRow>}
        {slurm.length > 0 && <DetailRow name="Slurm">{slurm.join(", ")}</DetailRow>}
        {job.continues !== null && (
          <DetailRow name={t("Continued from")}>
            <Anchor component={Link} to={`/jobs/${job.continues}`} size="sm">
              {t("previous session")}
            </Anchor>
          </DetailRow>
        )}
        <DetailRow name={t("Project")}>{job.project}</DetailRow>
        <DetailRow name={t("Owner")}>{job.account === null || job.account === job.owner ? job.owner : t("{{owner}} (as {{account}})", { owner: job.owner, account: job.account })}</DetailRow>
        {job.template !== null && (
          <DetailRow name={t("Template")}>
            {job.template} {job.template_version}
          </DetailRow>
        )}
        {job.origin !== "outside" && <JobSoftware job={job} />}
        {job.workdir !== null && (
          <DetailRow name={t("Folder")}>
            <Group gap={4} wrap="nowrap">
              <span className="mono">{job.workdir}</span>
              <CopyButton text={job.workdir} what={t("Folder")} />
            </Group>
          </DetailRow>
        )}
        {job.tree !== null && (
          <DetailRow name={t("Working tree")}>
            <span>
              {[
                t("{{count}} files", { count: job.tree.files }),
                formatBytes(job.tree.size_bytes),
                job.tree.commit === null ? "" : t("commit {{commit}}", { commit: job.tree.commit.slice(0, 12) }),
                job.tree.dirty === true ? t("with uncommitted changes") : "",
              ]
                .filter(Boolean)
                .join(", ")}{" "}
              <Identifier value={job.tree.digest} short={job.tree.digest.slice(0, 12)} what={t("the SHA-256 of the tree")} />
            </span>
          </DetailRow>
        )}
        {job.repo !== null && (
          <DetailRow name={t("Repository")}>
            <span className="mono">{[job.repo.url, job.repo.ref, job.repo.subdir].filter(Boolean).join(" ")}</span>
          </DetailRow>
        )}
        {job.log_path !== null && (
          <DetailRow name={t("Log")}>
            <span className="mono">{job.log_path}</span>
          </DetailRow>
        )}
        {job.secrets.length > 0 && (
          <DetailRow name={t("Secrets")}>
            <span className="mono">{job.secrets.join(", ")}</span>
          </DetailRow>
        )}
        {job.array !== null && <DetailRow name={t("Array")}><ArrayLimit job={job} array={job.array} /></DetailRow>}
        <DetailRow name={t("Created")}>
          <RelativeTime at={job.created_at} />
        </DetailRow>
        {job.ended_at !== null && (
          <DetailRow name={t("Ended")}>
            <span>
              <RelativeTime at={job.ended_at} />
              {describeExit(job) !== "" && `, ${describeExit(job)}`}
            </span>
          </DetailRow>
        )}
        {job.folder_bytes !== null && job.folder_files !== null && (
          <DetailRow name={t("Folder size")}>
            {t("{{size}} in {{count}} files", { size: formatBytes(job.folder_bytes), count: job.folder_files })}
          </DetailRow>
        )}
        {job.expires_at !== null && job.ended_at === null && (
          <DetailRow name={t("Ends")}>
            <RelativeTime at={job.expires_at} />
          </DetailRow>
        )}
        {job.attempt > 1 && <DetailRow name={t("Attempt")}>{job.attempt}</DetailRow>}
        {job.excluded_nodes.length > 0 && (
          <DetailRow name={t("Excluded nodes")}>
            <span>
              <NodeLinks nodes={job.excluded_nodes} /> ({t("failed during earlier attempts")})
            </span>
          </DetailRow>
        )}
        {job.restart_count > 0 && <DetailRow name={t("Restarts")}>{job.restart_count}</DetailRow>}
        {dependencies.length > 0 && (
          <DetailRow name={t("Dependencies")}>
            <span>
              {dependencies.map(([kind, id]) => (
                <span key={`${kind} ${id}`} style={{ marginRight: 8 }}>
                  {kind === "after" ? "" : `${kind}: `}
                  <Link to="/jobs/$jobId" params={{ jobId: id }} className="mono">
                    {id.slice(0, 8)}
                  </Link>
                </span>
              ))}
            </span>
          </DetailRow>
        )}
        {job.singleton && <DetailRow name={t("Singleton")}>{t("after all earlier jobs with this name")}</DetailRow>}
        {job.begin !== null && (
          <DetailRow name={t("Earliest start")}>
            <RelativeTime
              at={typeof job.begin === "number" ? new Date(Date.parse(job.created_at) + job.begin * 1000).toISOString() : job.begin}
            />
          </DetailRow>
        )}
        <DetailRow name={t("Job ID")}>
          <Identifier value={job.id} what={t("the job ID")} />
        </DetailRow>
        {job.scheduler_id !== null && (
          <DetailRow name={t("Scheduler ID")}>
            <Identifier value={job.scheduler_id} what={t("the scheduler ID")} />
          </DetailRow>
        )}
      </dl>
      {parameters.length > 0 && (
        <Block title={t("Parameters")}>{parameters.map(([name, value]) => `${name} = ${String(value)}`).join("\n")}</Block>
      )}
      {job.notebook !== null && (
        <Block title={t("Notebook")}>
          {[job.notebook.path, ...notebookParameters(job).map(([name, value]) => `${name} = ${value}`)].join("\n")}
        </Block>
      )}
      {job.commands.length > 0 && <Block title={t("Commands")}>{job.commands.join("\n")}</Block>}
      {job.args.length > 0 && <Block title={t("Arguments")}>{job.args.join("\n")}</Block>}
      {env.length > 0 && <Block title={t("Environment")}>{env.map(([name, value]) => `${name}=${value}`).join("\n")}</Block>}
    </>
  );
}

/** The session whose notebook uses the ranks. */
function SessionRow({ id }: { id: string }) {
  const { t } = useTranslation();
  const { data: session } = useQuery(jobQuery(id));
  return (
    <DetailRow name={t("Ranks of session")}>
      <Anchor component={Link} to={`/jobs/${id}`} size="sm" data-testid="ranks-session">
        {session?.name ?? id.slice(0, 8)}
      </Anchor>
    </DetailRow>
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
