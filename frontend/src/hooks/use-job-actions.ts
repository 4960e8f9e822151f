import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { cancelJob, extendSession, openSession, resubmit, stopSession } from "@/api/actions";
import { keys } from "@/api/queries";
import type { Job } from "@/api/types";
import { notifyDone, notifyProblem } from "@/components/notify";
import { askToNotify } from "@/components/notify-ending";
import { uuid } from "@/lib/id";
import { useCacheUpdater } from "@/live/LiveProvider";

/** Opens at once, inside the click, so that no popup blocker steps in; the address follows. */
async function openInNewTab(job: Job): Promise<void> {
  const tab = window.open("about:blank", "_blank");
  if (tab !== null) {
    tab.opener = null;
    tab.document.title = `Opening ${job.name}…`;
  }
  try {
    const url = await openSession(job.id);
    if (tab === null) window.location.assign(url);
    else tab.location.replace(url);
    askToNotify();
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** What can be done with one job. Each reports its own failure and puts the answer where it is shown. */
export function useJobActions(job: Job) {
  const updater = useCacheUpdater();
  const cache = useQueryClient();
  const navigate = useNavigate();

  const stop = useMutation({
    mutationFn: () => (job.type === "session" ? stopSession(job.id) : cancelJob(job.id)),
    onSuccess: (answer) => updater.put(answer),
    onError: (error) => notifyProblem(`${job.name} was not stopped`, error),
  });
  const open = useMutation({
    mutationFn: () => openInNewTab(job),
    onError: (error) => notifyProblem(`${job.name} did not open`, error),
  });
  const extend = useMutation({
    mutationFn: (duration: string) => extendSession(job.id, duration),
    onSuccess: (answer) => {
      updater.put(answer);
      notifyDone(`${job.name} has more time.`);
    },
    onError: (error) => notifyProblem(`${job.name} was not extended`, error),
  });
  const again = useMutation({
    mutationFn: () => resubmit(job.id, uuid()),
    onSuccess: async (answer) => {
      cache.setQueryData(keys.job(answer.id), answer);
      await Promise.all([
        cache.invalidateQueries({ queryKey: keys.sessions }),
        cache.invalidateQueries({ queryKey: keys.recent }),
      ]);
      if (answer.type === "job") {
        await navigate({ to: "/jobs/$jobId", params: { jobId: answer.id } });
      }
    },
    onError: (error) => notifyProblem(`${job.name} was not started again`, error),
  });
  return { stop, open, extend, again };
}
