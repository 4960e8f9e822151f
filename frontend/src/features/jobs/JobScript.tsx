import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { scriptQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { PageError } from "@/components/PageError";
import logClasses from "@/features/jobs/log/LogView.module.css";
import classes from "@/components/Job.module.css";

/** The batch script of the current attempt. */
export function JobScript({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(scriptQuery(job.id, job.attempt));
  if (query.isPending) return <Skeleton h={320} radius={0} />;
  if (query.data === undefined) return <PageError error={query.error} onRetry={() => query.refetch()} />;
  return (
    <>
      <div className={logClasses.tools}>
        <span className={logClasses.hits}>{t("Batch script of the job")}</span>
        <span className={logClasses.spacer} />
        <CopyButton what={t("the script")} text={query.data} />
      </div>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <pre className={classes.script} tabIndex={0} aria-label={t("Script")} data-testid="job-script">
        {query.data}
      </pre>
    </>
  );
}
