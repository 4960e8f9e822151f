import { ActionIcon, Button, Menu, Skeleton, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ArrowUpRight, CalendarPlus, ChevronDown, NotebookPen, RotateCcw, Square, SquareTerminal, X } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { NodeLinks } from "@/components/NodeLinks";
import { QueuePosition } from "@/components/QueuePosition";
import { Stages } from "@/components/Stages";
import { StateBadge } from "@/components/StateBadge";
import { ICONS, TemplateIcon } from "@/components/TemplateIcon";
import { RelativeTime } from "@/components/Time";
import { useJobActions } from "@/hooks/use-job-actions";
import { useNow } from "@/hooks/use-now";
import { useRefusal } from "@/hooks/use-refusal";
import { msg } from "@/i18n/msg";
import { describeResources, nameOfJob } from "@/lib/describe";
import { SOON_S } from "@/lib/ending";
import { isFailure, isTerminal } from "@/lib/states";
import { formatMoment, formatTicking, secondsBetween } from "@/lib/time";
import { ContinueButton } from "./ContinueButton";
import { IdleAlert } from "./IdleAlert";
import { canHaveRanks } from "./session-cards";
import classes from "./SessionCard.module.css";

const AttachedRanks = lazy(async () => ({ default: (await import("./ranks/AttachedRanks")).AttachedRanks }));

interface Props {
  job: Job;
  icon: string | undefined;
  templateTitle: string | undefined;
  onDismiss: (id: string) => void;
}

export function SessionCard({ job, icon, templateTitle, onDismiss }: Props) {
  const { t } = useTranslation();
  const ended = isTerminal(job.state);
  const look = job.state === "READY" ? classes.ready : isFailure(job.state) ? classes.bad : "";
  return (
    <article
      className={`${classes.card ?? ""} ${look ?? ""} rise`}
      data-testid="session-card"
      data-job={job.id}
      data-state={job.state}
      aria-label={t("Session {{name}}", { name: job.name })}
    >
      <div className={classes.head}>
        <TemplateIcon name={icon} session />
        <div className={classes.names}>
          <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={`${classes.name ?? ""} truncate`}>
            {job.name}
          </Link>
          <div className={classes.sub}>
            {[templateTitle !== job.name ? templateTitle : undefined, describeResources(job.resources)].filter(Boolean).join(" · ")}
            {job.nodes.length > 0 && (
              <>
                {" · "}
                <NodeLinks nodes={job.nodes} short />
              </>
            )}
          </div>
        </div>
        <StateBadge job={job} />
        <SessionButtons job={job} ended={ended} onDismiss={onDismiss} />
      </div>
      <div className={classes.stages}>
        <Stages job={job} />
      </div>
      <IdleAlert job={job} mt="md" />
      <Foot job={job} ended={ended} />
      <SessionRanks job={job} />
    </article>
  );
}

/** The ranks of a session that runs; of another one there is nothing to show. */
export function SessionRanks({ job }: { job: Job }) {
  if (!canHaveRanks(job)) return null;
  return (
    <Suspense fallback={<Skeleton h={28} mt={30} />}>
      <AttachedRanks session={job} />
    </Suspense>
  );
}

function SessionButtons({ job, ended, onDismiss }: { job: Job; ended: boolean; onDismiss: (id: string) => void }) {
  const { t } = useTranslation();
  const { rerun, stop } = useJobActions(job);
  const [confirming, setConfirming] = useState(false);
  if (ended) {
    return (
      <div className={classes.actions}>
        {job.actions.includes("continue") && <ContinueButton job={job} onContinued={() => onDismiss(job.id)} />}
        <ChangeButton
          size="xs"
          variant={job.actions.includes("continue") ? "subtle" : "light"}
          leftSection={<RotateCcw size={15} />}
          loading={rerun.isPending}
          disabled={!job.actions.includes("resubmit")}
          onClick={() => rerun.mutate(undefined, { onSuccess: () => onDismiss(job.id) })}
          data-testid="session-again"
        >
          {t("Launch again")}
        </ChangeButton>
        <Tooltip label={t("Dismiss")}>
          <ActionIcon
            variant="subtle"
            color="gray"
            size={30}
            aria-label={t("Dismiss {{name}}", { name: job.name })}
            onClick={() => onDismiss(job.id)}
            data-testid="session-dismiss"
          >
            <X size={16} />
          </ActionIcon>
        </Tooltip>
      </div>
    );
  }
  return (
    <div className={classes.actions}>
      <EntryPoints job={job} />
      <ExtendMenu job={job} />
      <Button
        size="xs"
        variant="subtle"
        color="red"
        leftSection={<Square size={13} />}
        disabled={!job.actions.includes("stop") || job.cancel_requested}
        onClick={() => setConfirming(true)}
        data-testid="session-stop"
      >
        {t("Stop")}
      </Button>
      <StopConfirm job={job} opened={confirming} stop={stop} onClose={() => setConfirming(false)} />
    </div>
  );
}

/** The session's apps and a terminal. */
function EntryPoints({ job }: { job: Job }) {
  const { t } = useTranslation();
  return (
    <>
      <OpenButton job={job} />
      <MoreEntryPoints job={job} />
      {job.actions.includes("attach") && (
        <Tooltip label={t("Terminal")}>
          <ActionIcon
            renderRoot={(props) => <Link {...props} to={`/jobs/${job.id}/terminal` as "/"} />}
            variant="default"
            size={30}
            aria-label={t("Terminal of {{name}}", { name: job.name })}
            data-testid="session-terminal"
          >
            <SquareTerminal size={16} />
          </ActionIcon>
        </Tooltip>
      )}
    </>
  );
}

/** The apps of a session other than the one that Open opens. */
export function MoreEntryPoints({ job, size = 30 }: { job: Job; size?: number }) {
  const { t } = useTranslation();
  const { open } = useJobActions(job);
  const refusal = useRefusal();
  if (!job.actions.includes("open")) return null;
  return job.entry_points.slice(1).map(({ name, title, icon }) => {
    const Icon = ICONS[icon] ?? NotebookPen;
    return (
      <Tooltip key={name} label={refusal ?? title} multiline maw={280}>
        <ActionIcon
          variant="default"
          size={size}
          disabled={refusal !== null}
          loading={open.isPending && open.variables === name}
          onClick={() => open.mutate(name)}
          aria-label={t("{{app}} of {{name}}", { app: title, name: job.name })}
          data-testid={`session-open-${name}`}
        >
          <Icon size={16} />
        </ActionIcon>
      </Tooltip>
    );
  });
}

export function OpenButton({ job, size = "xs" }: { job: Job; size?: "xs" | "sm" }) {
  const { t } = useTranslation();
  const { open } = useJobActions(job);
  const Icon = ICONS[job.entry_points[0]?.icon ?? ""] ?? NotebookPen;
  return (
    <ChangeButton
      size={size}
      color="moon.7"
      leftSection={<Icon size={15} />}
      rightSection={<ArrowUpRight size={15} />}
      disabled={!job.actions.includes("open")}
      loading={open.isPending}
      onClick={() => open.mutate(undefined)}
      data-testid="session-open"
    >
      {t("Open")}
    </ChangeButton>
  );
}

const EXTENSIONS = [
  { duration: "1h", label: msg("Extend by 1 hour") },
  { duration: "4h", label: msg("Extend by 4 hours") },
];

export function ExtendMenu({ job, size = "xs" }: { job: Job; size?: "xs" | "sm" }) {
  const { t } = useTranslation();
  const { extend } = useJobActions(job);
  return (
    <Menu>
      <Menu.Target>
        <Button
          size={size}
          variant="default"
          leftSection={<CalendarPlus size={15} />}
          rightSection={<ChevronDown size={13} />}
          disabled={!job.actions.includes("extend")}
          loading={extend.isPending}
          data-testid={`${job.type}-extend`}
        >
          {t("Extend")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {EXTENSIONS.map(({ duration, label }) => (
          <Menu.Item key={duration} onClick={() => extend.mutate(duration)} data-testid={`${job.type}-extend-${duration}`}>
            {t(label)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

interface StopProps {
  job: Job;
  opened: boolean;
  stop: ReturnType<typeof useJobActions>["stop"];
  onClose: () => void;
}

export function StopConfirm({ job, opened, stop, onClose }: StopProps) {
  const { t } = useTranslation();
  const session = job.type === "session";
  return (
    <Confirm
      opened={opened}
      title={session ? t("Stop {{name}}?", { name: job.name }) : t("Cancel {{name}}?", { name: nameOfJob(job) })}
      action={session ? t("Stop session") : t("Cancel job")}
      keep={session ? t("Keep running") : t("Keep job")}
      busy={stop.isPending}
      onClose={onClose}
      onConfirm={() => stop.mutate(undefined, { onSettled: onClose })}
    >
      {session
        ? t("Running notebooks are terminated and data in memory is lost. Files on disk are kept.")
        : t("The job is terminated. Written files are kept; unsaved results are lost.")}
    </Confirm>
  );
}

function Foot({ job, ended }: { job: Job; ended: boolean }) {
  const { t } = useTranslation();
  if (ended && job.ended_at) {
    return (
      <div className={classes.foot}>
        <span>
          {t("Ended")} <RelativeTime at={job.ended_at} />
        </span>
      </div>
    );
  }
  if (job.expires_at && job.started_at) return <Expiry startedAt={job.started_at} expiresAt={job.expires_at} />;
  return (
    <div className={classes.foot}>
      <span>
        {t("Submitted")} <RelativeTime at={job.created_at} />
      </span>
      <QueuePosition job={job} />
    </div>
  );
}

function Expiry({ startedAt, expiresAt }: { startedAt: string; expiresAt: string }) {
  const { t } = useTranslation();
  const now = useNow();
  const left = (new Date(expiresAt).getTime() - now.getTime()) / 1000;
  const total = secondsBetween(startedAt, expiresAt, now);
  const used = total === 0 ? 1 : Math.min(1, Math.max(0, 1 - left / total));
  const soon = left < SOON_S;
  return (
    <div className={classes.foot} data-testid="session-expiry">
      <Tooltip label={t("Ends {{time}}", { time: formatMoment(new Date(expiresAt)) })}>
        <span className={`tabular ${soon ? (classes.soon ?? "") : ""}`}>
          {left > 0 ? t("{{time}} left", { time: formatTicking(left) }) : t("Time limit reached")}
        </span>
      </Tooltip>
      <span className={classes.bar} aria-hidden>
        <span className={`${classes.barFill ?? ""} ${soon ? (classes.barSoon ?? "") : ""}`} style={{ width: `${used * 100}%` }} />
      </span>
    </div>
  );
}
