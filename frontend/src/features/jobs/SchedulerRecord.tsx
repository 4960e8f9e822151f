import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { messageOf } from "@/api/problem";
import { recordQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import classes from "./SchedulerRecord.module.css";

/** The scheduler's record of the job, collapsed by default. */
export function SchedulerRecord({ job }: { job: Job }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  if (job.scheduler_id === null) return null;
  return (
    <details className={classes.fold} onToggle={(event) => setOpened(event.currentTarget.open)} data-testid="scheduler-record">
      <summary className={classes.summary}>{t("Scheduler record ({{scheduler_id}})", { scheduler_id: job.scheduler_id })}</summary>
      {opened && <Record job={job} />}
    </details>
  );
}

function Record({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(recordQuery(job.id, job.version));
  if (query.isPending) return <Skeleton h={120} mt="xs" />;
  if (query.data === undefined) return <p className={classes.none}><CodeText>{messageOf(query.error)}</CodeText></p>;
  const entries = Object.entries(query.data.record ?? {});
  if (entries.length === 0) return <p className={classes.none}>{t("No record yet.")}</p>;
  return (
    <dl className={classes.record}>
      {entries.map(([name, value]) => (
        <div key={name} className={classes.row}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
