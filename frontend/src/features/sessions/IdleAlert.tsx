import { Alert, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Moon } from "lucide-react";
import { useTranslation } from "react-i18next";
import { keepSession } from "@/api/notifications";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { notifyDone, notifyProblem } from "@/components/notify";
import { useNow } from "@/hooks/use-now";
import { isTerminal } from "@/lib/states";
import { formatDuration, formatTicking } from "@/lib/time";
import { useCacheUpdater } from "@/live/LiveProvider";

interface Margins {
  mb?: string;
  mt?: string;
}

/** On the card and page of an inactive session: the time until it ends, and a button to keep it running. */
export function IdleAlert({ job, ...margins }: { job: Job } & Margins) {
  if (job.type !== "session" || job.idle_ends_at === null || isTerminal(job.state) || job.cancel_requested) return null;
  return <Countdown job={job} endsAt={job.idle_ends_at} margins={margins} />;
}

function Countdown({ job, endsAt, margins }: { job: Job; endsAt: string; margins: Margins }) {
  const { t } = useTranslation();
  const remaining = (new Date(endsAt).getTime() - useNow().getTime()) / 1000;
  return (
    <Alert color="orange" icon={<Moon size={18} />} role="status" data-testid="idle-alert" {...margins}>
      <Group justify="space-between" gap="xs">
        <span className="tabular">
          {remaining > 0
            ? t("Session is inactive. Ends in {{left}}.", { left: formatTicking(remaining) })
            : t("Session is inactive and ends now.")}
        </span>
        <KeepButton job={job} />
      </Group>
    </Alert>
  );
}

/** Requires the permission to extend the session. */
export function KeepButton({ job }: { job: Job }) {
  const { t } = useTranslation();
  const updater = useCacheUpdater();
  const keep = useMutation({
    mutationFn: () => keepSession(job.id),
    onSuccess: (updated) => {
      updater.put(updated);
      notifyDone(
        t("Inactivity timer of {{name}} reset. The session ends after {{time}} without activity.", {
          name: job.name,
          time: formatDuration(job.inactivity_duration_s ?? 0),
        }),
      );
    },
    onError: (error) => notifyProblem(t("Could not reset the inactivity timer of {{name}}", { name: job.name }), error),
  });
  if (!job.actions.includes("extend")) return null;
  return (
    <ChangeButton size="compact-sm" color="orange" variant="light" loading={keep.isPending} onClick={() => keep.mutate()} data-testid="session-keep">
      {t("Keep session")}
    </ChangeButton>
  );
}
