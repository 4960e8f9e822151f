import { Alert, Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Moon } from "lucide-react";
import { useTranslation } from "react-i18next";
import { keepSession } from "@/api/notifications";
import type { Job } from "@/api/types";
import { notifyDone, notifyProblem } from "@/components/notify";
import { useNow } from "@/hooks/use-now";
import { isTerminal } from "@/lib/states";
import { formatDuration, formatTicking } from "@/lib/time";
import { useCacheUpdater } from "@/live/LiveProvider";

interface Space {
  mb?: string;
  mt?: string;
}

/** On the card and the page of a session that nobody works in: when it ends for that, and the way out. */
export function IdleAlert({ job, ...space }: { job: Job } & Space) {
  if (job.type !== "session" || job.idle_ends_at === null || isTerminal(job.state) || job.cancel_requested) return null;
  return <Countdown job={job} endsAt={job.idle_ends_at} space={space} />;
}

function Countdown({ job, endsAt, space }: { job: Job; endsAt: string; space: Space }) {
  const { t } = useTranslation();
  const left = (new Date(endsAt).getTime() - useNow().getTime()) / 1000;
  return (
    <Alert color="orange" icon={<Moon size={18} />} role="status" data-testid="idle-alert" {...space}>
      <Group justify="space-between" gap="xs">
        <span className="tabular">
          {left > 0
            ? t("Nobody works in it. It ends in {{left}}.", { left: formatTicking(left) })
            : t("Nobody works in it. It ends now.")}
        </span>
        <KeepButton job={job} />
      </Group>
    </Alert>
  );
}

/** Only who may extend a session may keep it. */
export function KeepButton({ job }: { job: Job }) {
  const { t } = useTranslation();
  const updater = useCacheUpdater();
  const keep = useMutation({
    mutationFn: () => keepSession(job.id),
    onSuccess: (answer) => {
      updater.put(answer);
      notifyDone(
        t("{{name}} stays. It would end after another {{time}} without activity.", {
          name: job.name,
          time: formatDuration(job.inactivity_duration_s ?? 0),
        }),
      );
    },
    onError: (error) => notifyProblem(t("{{name}} was not kept", { name: job.name }), error),
  });
  if (!job.actions.includes("extend")) return null;
  return (
    <Button size="compact-sm" color="orange" variant="light" loading={keep.isPending} onClick={() => keep.mutate()} data-testid="session-keep">
      {t("Keep it")}
    </Button>
  );
}
