import { Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, Package, RotateCcw } from "lucide-react";
import { useTranslation } from "react-i18next";
import { failureQuery } from "@/api/queries";
import type { Failure, Job, Remedy, ResubmitOptions } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { ServerText } from "@/components/ServerText";
import stages from "@/components/Stages.module.css";
import { useJobActions } from "@/hooks/use-job-actions";
import { durationWords, formatDuration } from "@/lib/time";
import { formatBytes, memoryText } from "@/lib/units";
import classes from "./FailureDetail.module.css";

interface Props {
  job: Job;
  /** Shows the line of the log that has the error. */
  onShowLine: (line: string) => void;
}

/** Why a job failed: a sentence, the line of its log, and the remedies that were checked. */
export function FailureDetail({ job, onShowLine }: Props) {
  const { t } = useTranslation();
  const failure = useQuery(failureQuery(job.id, job.version)).data ?? null;
  const text = failure?.text ?? job.message ?? t("Failed without a reported reason. See the log.");
  return (
    <div className={`${stages.detail ?? ""} ${stages.detailBad ?? ""}`} role="status" data-testid="stage-detail">
      <CircleAlert size={16} aria-hidden />
      <div className={classes.body}>
        <ServerText>{text}</ServerText>
        {failure !== null && <Evidence job={job} failure={failure} onShowLine={onShowLine} />}
      </div>
    </div>
  );
}

function Evidence({ job, failure, onShowLine }: Props & { failure: Failure }) {
  const { t } = useTranslation();
  const { line, remedies } = failure;
  return (
    <>
      {line !== null && (
        <button type="button" className={classes.line} title={t("Show in log")} onClick={() => onShowLine(line.text)} data-testid="failure-line">
          <span className="visually-hidden">{t("Show in log")}: </span>
          {line.text}
        </button>
      )}
      {remedies.length > 0 && (
        <Group gap="xs" mt={8}>
          {remedies.map((remedy) => (
            <RemedyButton key={remedy.kind} job={job} remedy={remedy} />
          ))}
        </Group>
      )}
    </>
  );
}

function RemedyButton({ job, remedy }: { job: Job; remedy: Remedy }) {
  const { t } = useTranslation();
  const { rerun } = useJobActions(job);
  if (remedy.kind === "packages") {
    return (
      <Button
        renderRoot={(props) => <Link {...props} to="/jobs/$jobId" params={{ jobId: job.id }} search={{ tab: "snapshot" }} />}
        size="xs"
        variant="default"
        leftSection={<Package size={14} />}
        data-testid="remedy-packages"
      >
        {t("Packages of the environment")}
      </Button>
    );
  }
  const label =
    remedy.memory_bytes === null
      ? t("Run again with a time limit of {{time}}", { time: formatDuration(remedy.max_duration_s ?? 0) })
      : t("Run again with {{memory}} of memory", { memory: formatBytes(remedy.memory_bytes) });
  return (
    <ChangeButton
      size="xs"
      variant="default"
      h="auto"
      mih={30}
      py={5}
      ta="left"
      styles={{ label: { height: "auto", whiteSpace: "normal", lineHeight: 1.35 } }}
      leftSection={<RotateCcw size={14} />}
      loading={rerun.isPending}
      onClick={() => rerun.mutate(optionsOf(remedy))}
      data-testid="remedy-resubmit"
    >
      {label}
    </ChangeButton>
  );
}

function optionsOf(remedy: Remedy): ResubmitOptions {
  return {
    ...(remedy.memory_bytes === null ? {} : { memory: memoryText(remedy.memory_bytes) }),
    ...(remedy.max_duration_s === null ? {} : { max_duration: durationWords(remedy.max_duration_s) }),
  };
}
