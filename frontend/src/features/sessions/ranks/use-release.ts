import { useMutation, useQueryClient } from "@tanstack/react-query";
import i18next from "i18next";
import { keys } from "@/api/queries";
import { rankKeys, releaseRanks } from "@/api/ranks";
import type { Job } from "@/api/types";
import { notifyProblem } from "@/components/notify";

/** Releases a rank group; a failure shows a toast, and the live feed the result. */
export function useRelease(session: string, group: Pick<Job, "id">) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => releaseRanks(session, group.id),
    onSuccess: () =>
      Promise.all([cache.invalidateQueries({ queryKey: rankKeys.session(session) }), cache.invalidateQueries({ queryKey: keys.job(group.id), exact: true })]),
    onError: (error) => notifyProblem(i18next.t("The ranks were not released"), error),
  });
}
