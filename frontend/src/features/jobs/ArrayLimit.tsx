import { NumberInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { throttleArray } from "@/api/actions";
import type { Job } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { FormDialog } from "@/components/FormDialog";
import { useCacheUpdater } from "@/live/LiveProvider";
import { runningLimit } from "./array-limit";

/** The indices of an array job, and the maximum of tasks that run at once, which may be changed while tasks wait. */
export function ArrayLimit({ job, array }: { job: Job; array: string }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const limit = runningLimit(array);
  const isChangeable = job.array_task_id === null && (job.actions.includes("hold") || job.actions.includes("release"));
  return (
    <>
      <span className="tabular" data-testid="array-limit">
        {array.split("%")[0]}
        {limit !== null && `, ${t("at most {{count}} at once", { count: limit })}`}
      </span>
      {isChangeable && (
        <ChangeButton variant="subtle" size="compact-xs" flex="none" ml={4} onClick={() => setOpened(true)} aria-label={`${t("Change")}: ${t("Limit running tasks")}`} data-testid="array-limit-change">
          {t("Change")}
        </ChangeButton>
      )}
      {opened && <LimitModal job={job} limit={limit} onClose={() => setOpened(false)} />}
    </>
  );
}

/** The largest array that the platform accepts. */
const MOST_TASKS = 10_000;

function LimitModal({ job, limit, onClose }: { job: Job; limit: number | null; onClose: () => void }) {
  const { t } = useTranslation();
  const updater = useCacheUpdater();
  const [value, setValue] = useState<number | string>(limit ?? "");
  const save = useMutation({
    mutationFn: () => throttleArray(job.id, typeof value === "number" ? value : null),
    onSuccess: (answer) => {
      updater.put(answer);
      onClose();
    },
  });
  return (
    <FormDialog title={t("Limit running tasks")} action={t("Save")} testId="array-limit-save" size="sm" busy={save.isPending} error={save.error} onClose={onClose} onSubmit={() => save.mutate()}>
      <NumberInput
        label={t("Tasks at once")}
        description={t("Leave blank for no limit. Running tasks continue.")}
        value={value}
        onChange={setValue}
        min={1}
        max={MOST_TASKS}
        allowDecimal={false}
        allowNegative={false}
        data-autofocus
        data-testid="array-limit-value"
      />
    </FormDialog>
  );
}
