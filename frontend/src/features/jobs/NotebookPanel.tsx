import { Button, Skeleton, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Download, NotebookText, RotateCw } from "lucide-react";
import { useTranslation } from "react-i18next";
import { API, getRaw, isStatus } from "@/api/client";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import logClasses from "@/features/jobs/log/LogView.module.css";
import { notebookName, notebookState, pageAddress } from "./notebook";
import classes from "./NotebookPanel.module.css";

/** The executed notebook of a job. What it contains is a program's output: the frame gives it no scripts and no origin. */
export function NotebookPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme();
  const state = notebookState(job);
  const query = useQuery({
    queryKey: ["job-notebook", job.id, job.attempt, state],
    queryFn: async ({ signal }) => {
      const response = await getRaw(`/jobs/${job.id}/notebook.html`, signal);
      // The frame reads the page itself; here only whether there is one matters.
      await response.body?.cancel();
      return true;
    },
    retry: false,
  });
  if (query.isPending) return <Skeleton h={320} radius={0} />;
  if (isStatus(query.error, 404)) {
    return (
      <EmptyState icon={NotebookText} title={t("No executed notebook")} action={state === "running" && <Reload query={query} />}>
        {state === "running" ? t("The job has not run a cell yet.") : t("The job ended before it ran a cell. Its log shows why.")}
      </EmptyState>
    );
  }
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const name = notebookName(job);
  return (
    <>
      <div className={logClasses.tools}>
        <span className={logClasses.hits}>{state === "running" ? t("Cells that were executed so far") : t("Executed notebook")}</span>
        <span className={logClasses.spacer} />
        {state === "running" && <Reload query={query} />}
        <Button component="a" href={`${API}/jobs/${job.id}/notebook`} download={name} variant="default" size="xs" leftSection={<Download size={14} />}>
          {t("Notebook")}
        </Button>
        <Button
          component="a"
          href={`${API}/jobs/${job.id}/notebook.html`}
          download={name.replace(/\.ipynb$/, ".html")}
          variant="default"
          size="xs"
          leftSection={<Download size={14} />}
        >
          {t("HTML page")}
        </Button>
      </div>
      <iframe
        key={`${String(query.dataUpdatedAt)} ${scheme}`}
        className={classes.page}
        sandbox=""
        referrerPolicy="no-referrer"
        title={t("Executed notebook")}
        src={pageAddress(job.id, scheme)}
        data-testid="job-notebook"
      />
    </>
  );
}

function Reload({ query }: { query: { isFetching: boolean; refetch: () => unknown } }) {
  const { t } = useTranslation();
  return (
    <Button variant="default" size="xs" leftSection={<RotateCw size={14} />} loading={query.isFetching} onClick={() => void query.refetch()}>
      {t("Reload")}
    </Button>
  );
}
