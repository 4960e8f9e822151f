import { ActionIcon, Button, Menu, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { ArrowUpRight, CalendarPlus, ChevronDown, RotateCcw, Square, X } from "lucide-react";
import { useState } from "react";
import type { Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { QueueLine } from "@/components/QueueLine";
import { Stages } from "@/components/Stages";
import { StateBadge } from "@/components/StateBadge";
import { TemplateIcon } from "@/components/TemplateIcon";
import { RelativeTime } from "@/components/Time";
import { useJobActions } from "@/hooks/use-job-actions";
import { useNow } from "@/hooks/use-now";
import { describeNodes, describeResources } from "@/lib/describe";
import { SOON_S } from "@/lib/ending";
import { isFailure, isTerminal } from "@/lib/states";
import { formatAbsolute, formatTicking, secondsBetween } from "@/lib/time";
import classes from "./SessionCard.module.css";

interface Props {
  job: Job;
  icon: string | undefined;
  templateTitle: string | undefined;
  onDismiss: (id: string) => void;
}

export function SessionCard({ job, icon, templateTitle, onDismiss }: Props) {
  const ended = isTerminal(job.state);
  const look = job.state === "READY" ? classes.ready : isFailure(job.state) ? classes.bad : "";
  return (
    <article
      className={`${classes.card ?? ""} ${look ?? ""} rise`}
      data-testid="session-card"
      data-job={job.id}
      data-state={job.state}
      aria-label={`Session ${job.name}`}
    >
      <div className={classes.head}>
        <TemplateIcon name={icon} session />
        <div className={classes.names}>
          <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={`${classes.name ?? ""} truncate`}>
            {job.name}
          </Link>
          <div className={`${classes.sub ?? ""} truncate`}>
            {[
              templateTitle !== job.name ? templateTitle : undefined,
              describeResources(job.resources),
              job.nodes.length > 0 ? `on ${describeNodes(job.nodes)}` : undefined,
            ]
              .filter(Boolean)
              .join(" · ")}
          </div>
        </div>
        <StateBadge job={job} />
        <SessionButtons job={job} ended={ended} onDismiss={onDismiss} />
      </div>
      <div className={classes.stages}>
        <Stages job={job} />
      </div>
      <Foot job={job} ended={ended} />
    </article>
  );
}

function SessionButtons({ job, ended, onDismiss }: { job: Job; ended: boolean; onDismiss: (id: string) => void }) {
  const { again, stop } = useJobActions(job);
  const [asking, setAsking] = useState(false);
  if (ended) {
    return (
      <div className={classes.actions}>
        <Button
          size="xs"
          variant="light"
          leftSection={<RotateCcw size={15} />}
          loading={again.isPending}
          disabled={!job.actions.includes("resubmit")}
          onClick={() => again.mutate(undefined, { onSuccess: () => onDismiss(job.id) })}
          data-testid="session-again"
        >
          Launch again
        </Button>
        <Tooltip label="Hide this card">
          <ActionIcon
            variant="subtle"
            color="gray"
            size={30}
            aria-label={`Hide ${job.name}`}
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
      <OpenButton job={job} />
      <ExtendMenu job={job} />
      <Button
        size="xs"
        variant="subtle"
        color="red"
        leftSection={<Square size={13} />}
        disabled={!job.actions.includes("stop") || job.cancel_requested}
        onClick={() => setAsking(true)}
        data-testid="session-stop"
      >
        Stop
      </Button>
      <StopConfirm job={job} opened={asking} stop={stop} onClose={() => setAsking(false)} />
    </div>
  );
}

export function OpenButton({ job, size = "xs" }: { job: Job; size?: "xs" | "sm" }) {
  const { open } = useJobActions(job);
  return (
    <Button
      size={size}
      color="moon.7"
      rightSection={<ArrowUpRight size={15} />}
      disabled={!job.actions.includes("open")}
      loading={open.isPending}
      onClick={() => open.mutate()}
      data-testid="session-open"
    >
      Open
    </Button>
  );
}

const EXTENSIONS = [
  { duration: "1h", label: "1 hour more" },
  { duration: "4h", label: "4 hours more" },
];

export function ExtendMenu({ job, size = "xs" }: { job: Job; size?: "xs" | "sm" }) {
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
          data-testid="session-extend"
        >
          Extend
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {EXTENSIONS.map(({ duration, label }) => (
          <Menu.Item key={duration} onClick={() => extend.mutate(duration)} data-testid={`session-extend-${duration}`}>
            {label}
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
  const session = job.type === "session";
  return (
    <Confirm
      opened={opened}
      title={session ? `Stop ${job.name}?` : `Cancel ${job.name}?`}
      action={session ? "Stop session" : "Cancel job"}
      keep={session ? "Keep it running" : "Keep it"}
      busy={stop.isPending}
      onClose={onClose}
      onConfirm={() => stop.mutate(undefined, { onSettled: onClose })}
    >
      {session
        ? "Running notebooks end and what is only in memory is lost. Files on disk stay."
        : "The job ends now. What it has written stays; the rest of its work is lost."}
    </Confirm>
  );
}

function Foot({ job, ended }: { job: Job; ended: boolean }) {
  if (ended && job.ended_at) {
    return (
      <div className={classes.foot}>
        <span>
          Ended <RelativeTime at={job.ended_at} />
        </span>
      </div>
    );
  }
  if (job.expires_at && job.started_at) return <Expiry startedAt={job.started_at} expiresAt={job.expires_at} />;
  return (
    <div className={classes.foot}>
      <span>
        Asked for <RelativeTime at={job.created_at} />
      </span>
      <QueueLine job={job} />
    </div>
  );
}

function Expiry({ startedAt, expiresAt }: { startedAt: string; expiresAt: string }) {
  const now = useNow();
  const left = (new Date(expiresAt).getTime() - now.getTime()) / 1000;
  const whole = secondsBetween(startedAt, expiresAt, now);
  const used = whole === 0 ? 1 : Math.min(1, Math.max(0, 1 - left / whole));
  const soon = left < SOON_S;
  return (
    <div className={classes.foot} data-testid="session-expiry">
      <Tooltip label={`Ends ${formatAbsolute(new Date(expiresAt))}`}>
        <span className={`tabular ${soon ? (classes.soon ?? "") : ""}`}>
          {left > 0 ? `${formatTicking(left)} left` : "Its time is up"}
        </span>
      </Tooltip>
      <span className={classes.bar} aria-hidden>
        <span className={`${classes.barFill ?? ""} ${soon ? (classes.barSoon ?? "") : ""}`} style={{ width: `${used * 100}%` }} />
      </span>
    </div>
  );
}
