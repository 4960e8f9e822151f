import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import i18next from "i18next";
import { cancelJob, deleteJob, extendJob, holdJob, openSession, releaseJob, resubmit, stopSession } from "@/api/actions";
import { keys } from "@/api/queries";
import { continueSession } from "@/api/runs";
import type { Job, ResubmitOptions } from "@/api/types";
import { notifyDone, notifyProblem } from "@/components/notify";
import { requestNotificationPermission } from "@/components/notify-ending";
import { nameOfJob } from "@/lib/describe";
import { uuid } from "@/lib/id";
import { useCacheUpdater } from "@/live/LiveProvider";

/** Opens a tab inside the click, so that popup blockers permit it; the URL is set when it is known. */
export async function openInNewTab(job: Job, app?: string): Promise<void> {
  const tab = window.open("about:blank", "_blank");
  if (tab !== null) {
    tab.opener = null;
    tab.document.title = i18next.t("Opening {{name}}…", { name: nameOfJob(job) });
  }
  try {
    const url = await openSession(job.id, app);
    if (tab === null) window.location.assign(url);
    else tab.location.replace(url);
    requestNotificationPermission();
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** The actions on a job. Each shows a toast on failure and updates the cache on success. */
export function useJobActions(job: Job) {
  const updater = useCacheUpdater();
  const cache = useQueryClient();
  const navigate = useNavigate();

  const stop = useMutation({
    mutationFn: () => (job.type === "session" ? stopSession(job.id) : cancelJob(job.id)),
    onSuccess: (answer) => updater.put(answer),
    onError: (error) => notifyProblem(i18next.t("{{name}} was not stopped", { name: nameOfJob(job) }), error),
  });
  const remove = useMutation({
    mutationFn: () => deleteJob(job.id),
    onSuccess: async (answer) => {
      updater.put(answer);
      notifyDone(i18next.t("{{name}} is being deleted.", { name: nameOfJob(job) }));
      await navigate({ to: "/jobs" });
    },
    onError: (error) => notifyProblem(i18next.t("{{name}} was not deleted", { name: nameOfJob(job) }), error),
  });
  const hold = useMutation({
    mutationFn: () => holdJob(job.id),
    onSuccess: (answer) => updater.put(answer),
    onError: (error) => notifyProblem(i18next.t("{{name}} was not held", { name: nameOfJob(job) }), error),
  });
  const release = useMutation({
    mutationFn: () => releaseJob(job.id),
    onSuccess: (answer) => updater.put(answer),
    onError: (error) => notifyProblem(i18next.t("Could not release {{name}}", { name: nameOfJob(job) }), error),
  });
  const open = useMutation({
    mutationFn: (app?: string) => openInNewTab(job, app),
    onError: (error) => notifyProblem(i18next.t("{{name}} was not opened", { name: nameOfJob(job) }), error),
  });
  const extend = useMutation({
    mutationFn: (duration: string) => extendJob(job.id, duration),
    onSuccess: (answer) => {
      updater.put(answer);
      notifyDone(i18next.t("{{name}} extended.", { name: nameOfJob(job) }));
    },
    onError: (error) => notifyProblem(i18next.t("{{name}} was not extended", { name: nameOfJob(job) }), error),
  });
  const onNewJob = async (answer: Job) => {
    // Shown at once and refetched: events may have arrived before this answer.
    cache.setQueryData(keys.job(answer.id), answer, { updatedAt: 0 });
    await Promise.all([
      cache.invalidateQueries({ queryKey: keys.sessions }),
      cache.invalidateQueries({ queryKey: keys.recent }),
    ]);
    if (answer.type === "job") {
      await navigate({ to: "/jobs/$jobId", params: { jobId: answer.id } });
    }
  };
  const rerun = useMutation({
    mutationFn: (options?: ResubmitOptions) => resubmit(job.id, uuid(), options),
    onSuccess: onNewJob,
    onError: (error) => notifyProblem(i18next.t("{{name}} was not started again", { name: nameOfJob(job) }), error),
  });
  const resume = useMutation({
    mutationFn: () => continueSession(job.id, uuid()),
    onSuccess: onNewJob,
    onError: (error) => notifyProblem(i18next.t("{{name}} was not continued", { name: nameOfJob(job) }), error),
  });
  return { stop, remove, hold, release, open, extend, rerun, resume };
}
