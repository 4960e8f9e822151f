import { Check, CircleAlert, Hourglass, Info, type LucideIcon, Minus, Trophy, X } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Job, Stage } from "@/api/types";
import { ServerText } from "@/components/ServerText";
import { RelativeTime } from "@/components/Time";
import { useNow } from "@/hooks/use-now";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import { type StageDetail, stageDetail } from "@/lib/stage-detail";
import { isTerminal } from "@/lib/states";
import { formatClock, formatDuration, formatTicking, secondsBetween } from "@/lib/time";
import classes from "./Stages.module.css";

interface Props {
  job: Job;
  /** Replaces the sentence about why the job waits or failed. */
  children?: ReactNode;
}

/** The job's stages with their durations, and why it waits or failed. */
export function Stages({ job, children }: Props) {
  const { t } = useTranslation();
  const detail = children === undefined ? stageDetail(job) : null;
  // A session that has ended was successful, but can no longer be used: nothing is green.
  const over = job.type === "session" && isTerminal(job.state);
  return (
    <div className={classes.wrap}>
      <ol className={`${classes.list ?? ""} ${over ? (classes.over ?? "") : ""}`} aria-label={t("Stages")}>
        {job.stages.map((stage, index) => (
          <StageItem key={stage.key} stage={stage} last={index === job.stages.length - 1} over={over} />
        ))}
      </ol>
      {children}
      {detail && (
        <div className={`${classes.detail ?? ""} ${classes[detail.kind] ?? ""}`} role="status" data-testid="stage-detail">
          <Icon kind={detail.kind} />
          <span>
            <ServerText>{detail.text}</ServerText>
            {detail.expected && (
              <>
                {" "}
                {t("Estimated start:")} <RelativeTime at={detail.expected} />
              </>
            )}
          </span>
        </div>
      )}
    </div>
  );
}

const ICONS: Record<StageDetail["kind"], LucideIcon> = { detailBad: CircleAlert, detailWait: Hourglass, detailGood: Trophy, detailInfo: Info };

function Icon({ kind }: { kind: StageDetail["kind"] }) {
  const Shape = ICONS[kind];
  return <Shape size={16} aria-hidden />;
}

const STATUS_LABELS: Record<Stage["status"], string> = {
  done: msg("done"),
  current: msg("in progress"),
  waiting: msg("pending"),
  failed: msg("failed"),
  skipped: msg("skipped"),
};

function StageItem({ stage, last, over }: { stage: Stage; last: boolean; over: boolean }) {
  const { t } = useTranslation();
  const isTicking = stage.status === "current" && !last;
  // The last stage of a session is complete while the session is ready.
  const look = stage.status === "current" && last ? "arrived" : stage.status;
  return (
    <li
      className={`${classes.stage ?? ""} ${classes[look] ?? ""}`}
      data-testid={`stage-${stage.key}`}
      data-status={stage.status}
      aria-current={stage.status === "current" ? "step" : undefined}
    >
      <div className={classes.track} aria-hidden>
        <span className={classes.marker}>
          {(look === "done" || look === "arrived") && <Check size={12} strokeWidth={3.2} />}
          {stage.status === "failed" && <X size={12} strokeWidth={3.2} />}
          {stage.status === "skipped" && <Minus size={11} strokeWidth={3} />}
        </span>
        <span className={classes.line} />
      </div>
      <span className={classes.title}><ServerText>{stage.title}</ServerText></span>
      <span className="visually-hidden">: {t(known(STATUS_LABELS, stage.status, stage.status))}</span>
      <span className={`${classes.time ?? ""} tabular`}>
        {isTicking && stage.started_at ? <TickingTime since={stage.started_at} /> : <StageTime stage={stage} last={last && !over} />}
      </span>
    </li>
  );
}

function TickingTime({ since }: { since: string }) {
  const now = useNow();
  return <>{formatTicking(secondsBetween(since, null, now))}</>;
}

function StageTime({ stage, last }: { stage: Stage; last: boolean }) {
  if (!stage.started_at || stage.status === "waiting") return null;
  if (last) return <>{formatClock(new Date(stage.started_at), new Date())}</>;
  return stage.ended_at ? (
    <>{formatDuration(secondsBetween(stage.started_at, stage.ended_at, new Date()))}</>
  ) : null;
}
