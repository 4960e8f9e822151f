import i18next from "i18next";
import { Check, CircleAlert, Hourglass, Info, Minus, Trophy, X } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job, Stage } from "@/api/types";
import { Said } from "@/components/Said";
import { RelativeTime } from "@/components/Time";
import { useNow } from "@/hooks/use-now";
import { msg } from "@/i18n/msg";
import { isTerminal } from "@/lib/states";
import { formatClock, formatDuration, formatTicking, secondsBetween } from "@/lib/time";
import classes from "./Stages.module.css";

/** Where the job is on its way, how long each part took, and why it waits or failed. */
export function Stages({ job }: { job: Job }) {
  const { t } = useTranslation();
  const detail = detailOf(job);
  return (
    <div className={classes.wrap}>
      <ol className={classes.list} aria-label={t("Stages")}>
        {job.stages.map((stage, index) => (
          <StageItem key={stage.key} stage={stage} last={index === job.stages.length - 1} />
        ))}
      </ol>
      {detail && (
        <div className={`${classes.detail ?? ""} ${detail.className ?? ""}`} role="status" data-testid="stage-detail">
          <detail.icon size={16} aria-hidden />
          <span>
            <Said>{detail.text}</Said>
            {detail.expected && (
              <>
                {" "}
                {t("Expected to start:")} <RelativeTime at={detail.expected} />
              </>
            )}
          </span>
        </div>
      )}
    </div>
  );
}

const SPOKEN: Record<Stage["status"], string> = {
  done: msg("done"),
  current: msg("now"),
  waiting: msg("not yet"),
  failed: msg("failed here"),
  skipped: msg("not reached"),
};

function StageItem({ stage, last }: { stage: Stage; last: boolean }) {
  const { t } = useTranslation();
  const counts = stage.status === "current" && !last;
  // A session that is ready has arrived, however long it goes on.
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
      <span className={classes.title}><Said>{stage.title}</Said></span>
      <span className="visually-hidden">: {t(SPOKEN[stage.status])}</span>
      <span className={`${classes.time ?? ""} tabular`}>
        {counts && stage.started_at ? <Counting since={stage.started_at} /> : <Took stage={stage} last={last} />}
      </span>
    </li>
  );
}

function Counting({ since }: { since: string }) {
  const now = useNow();
  return <>{formatTicking(secondsBetween(since, null, now))}</>;
}

function Took({ stage, last }: { stage: Stage; last: boolean }) {
  if (!stage.started_at || stage.status === "waiting") return null;
  if (last) return <>{formatClock(new Date(stage.started_at), new Date())}</>;
  return stage.ended_at ? (
    <>{formatDuration(secondsBetween(stage.started_at, stage.ended_at, new Date()))}</>
  ) : null;
}

function detailOf(job: Job) {
  const text = job.stages.find((stage) => stage.detail)?.detail ?? job.message;
  const failed = job.stages.some((stage) => stage.status === "failed");
  const expected = job.state === "QUEUED" ? job.expected_start_at : null;
  if (failed) {
    return { text: text ?? i18next.t("It failed without saying why; the log may tell."), className: classes.detailBad, icon: CircleAlert, expected: null };
  }
  if (!text && !expected) return null;
  if (job.state === "QUEUED") {
    return { text: text ?? i18next.t("It waits for its turn."), className: classes.detailWait, icon: Hourglass, expected };
  }
  if (job.state === "COMPLETED" && job.reason === "goal_reached") return { text: text ?? "", className: classes.detailGood, icon: Trophy, expected: null };
  if (isTerminal(job.state) && job.state === "COMPLETED") return null;
  return { text: text ?? "", className: undefined, icon: Info, expected: null };
}
