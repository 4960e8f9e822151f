import { Alert, Group } from "@mantine/core";
import { AlarmClock } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { ExtendMenu } from "@/components/SessionCard";
import { useNow } from "@/hooks/use-now";
import { SOON_S } from "@/lib/ending";
import { isTerminal } from "@/lib/states";
import { formatTicking } from "@/lib/time";

/** On a session's page, in its last minutes: how long it has, and the way to more. */
export function EndingAlert({ job }: { job: Job }) {
  if (job.type !== "session" || job.expires_at === null || isTerminal(job.state)) return null;
  return <Countdown job={job} expiresAt={job.expires_at} />;
}

function Countdown({ job, expiresAt }: { job: Job; expiresAt: string }) {
  const { t } = useTranslation();
  const left = (new Date(expiresAt).getTime() - useNow().getTime()) / 1000;
  if (left > SOON_S) return null;
  return (
    <Alert color="orange" icon={<AlarmClock size={18} />} mb="md" data-testid="ending-alert">
      <Group justify="space-between">
        <span className="tabular">
          {left > 0 ? t("It ends in {{left}}. Save your work, or give it more time.", { left: formatTicking(left) }) : t("Its time is up.")}
        </span>
        {left > 0 && <ExtendMenu job={job} />}
      </Group>
    </Alert>
  );
}
