import { StepForward } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { useJobActions } from "@/hooks/use-job-actions";

interface Props {
  job: Job;
  size?: "xs" | "sm";
  /** Called when the new session exists. */
  onContinued?: () => void;
}

/** Starts an ended session again with the notebooks that were open in it. */
export function ContinueButton({ job, size = "xs", onContinued }: Props) {
  const { t } = useTranslation();
  const { resume } = useJobActions(job);
  return (
    <ChangeButton
      size={size}
      variant="light"
      leftSection={<StepForward size={15} />}
      loading={resume.isPending}
      onClick={() => resume.mutate(undefined, { onSuccess: () => onContinued?.() })}
      data-testid="session-continue"
    >
      {t("Continue")}
    </ChangeButton>
  );
}
