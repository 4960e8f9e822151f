import { Alert, Group } from "@mantine/core";
import { AlarmClock } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { useNow } from "@/hooks/use-now";
import { msg } from "@/i18n/msg";
import { soonOf } from "@/lib/ending";
import { isTerminal } from "@/lib/states";
import { formatTicking } from "@/lib/time";
import { ExtendMenu } from "./SessionCard";

const SESSION_ENDS = msg("Session ends in {{left}}. Save your work or extend the session.");
const JOB_ENDS = msg("The job reaches its time limit in {{left}}.");

/** The remaining time of a job or session in its last minutes, with a menu to extend it. */
export function EndingAlert({ job }: { job: Job }) {
  if (job.expires_at === null || isTerminal(job.state)) return null;
  return <Countdown job={job} expiresAt={job.expires_at} />;
}

function Countdown({ job, expiresAt }: { job: Job; expiresAt: string }) {
  const { t } = useTranslation();
  const remaining = (new Date(expiresAt).getTime() - useNow().getTime()) / 1000;
  if (remaining > soonOf(job)) return null;
  return (
    <Alert color="orange" icon={<AlarmClock size={18} />} mb="md" data-testid="ending-alert">
      <Group justify="space-between">
        <span className="tabular">
          {remaining > 0 ? t(job.type === "session" ? SESSION_ENDS : JOB_ENDS, { left: formatTicking(remaining) }) : t("Time limit reached.")}
        </span>
        {remaining > 0 && job.actions.includes("extend") && <ExtendMenu job={job} />}
      </Group>
    </Alert>
  );
}
