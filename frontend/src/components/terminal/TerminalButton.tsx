import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { SquareTerminal } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";

/** Leads to a shell in the job, for who may have one now. */
export function TerminalButton({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (!job.actions.includes("attach")) return null;
  return (
    <Button
      component={Link}
      to={`/jobs/${job.id}/terminal`}
      variant="default"
      size="sm"
      leftSection={<SquareTerminal size={15} />}
      data-testid="job-terminal"
    >
      {t("Terminal")}
    </Button>
  );
}
