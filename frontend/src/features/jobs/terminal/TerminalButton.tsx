import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { SquareTerminal } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";

/** Link to a terminal in the job where the user can open one. */
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
