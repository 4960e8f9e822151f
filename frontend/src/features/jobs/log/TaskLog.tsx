import { NumberInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { LogView } from "./LogView";

/** The log of one task, chosen by its index, of an array whose tasks have no pages. */
export function TaskLog({ job }: { job: Job }) {
  const { t } = useTranslation();
  const [task, setTask] = useState(Number.parseInt(job.array ?? "0", 10));
  return (
    <>
      <NumberInput
        label={t("Task")}
        description={t("One of {{indices}}", { indices: job.array })}
        value={task}
        onChange={(value) => typeof value === "number" && setTask(value)}
        min={0}
        allowDecimal={false}
        allowNegative={false}
        clampBehavior="strict"
        max={4_000_000}
        w={220}
        p="sm"
        data-testid="log-task"
      />
      <LogView job={job} task={task} />
    </>
  );
}
