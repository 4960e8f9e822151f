import { RotateCcw } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { useJobActions } from "@/hooks/use-job-actions";

const RerunDialog = lazy(() => import("./RerunDialog").then((module) => ({ default: module.RerunDialog })));

/** Runs a job again after a dialog that lists the changes since its run. */
export function RerunButton({ job, size = "sm" }: { job: Job; size?: "xs" | "sm" }) {
  const { t } = useTranslation();
  const { rerun } = useJobActions(job);
  const [loaded, setLoaded] = useState(false);
  const [opened, setOpened] = useState(false);
  const action = job.type === "session" ? t("Launch again") : t("Run again");
  return (
    <>
      <ChangeButton
        variant="default"
        size={size}
        leftSection={<RotateCcw size={15} />}
        onClick={() => {
          setLoaded(true);
          setOpened(true);
        }}
        data-testid="job-resubmit"
      >
        {action}
      </ChangeButton>
      {loaded && (
        <Suspense>
          <RerunDialog
            job={job}
            opened={opened}
            action={action}
            busy={rerun.isPending}
            onClose={() => setOpened(false)}
            onConfirm={() => rerun.mutate(undefined, { onSuccess: () => setOpened(false) })}
          />
        </Suspense>
      )}
    </>
  );
}
