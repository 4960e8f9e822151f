import { Select, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Partitions } from "@/api/types";
import { formatDuration } from "@/lib/time";
import type { LaunchValues } from "./launch";

interface Props {
  values: LaunchValues;
  partitions: Partitions;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

/** Options of Slurm: partition, QOS and node features. */
export function SlurmFields({ values, partitions, errors, onChange }: Props) {
  const { t } = useTranslation();
  const { slurm } = values;
  const set = (change: Partial<LaunchValues["slurm"]>) => onChange({ slurm: { ...slurm, ...change } });
  const defaultPartition = partitions.items.find((partition) => partition.default);
  return (
    <>
      <Select
        label={t("Partition")}
        placeholder={defaultPartition ? t("{{name}} (default)", { name: defaultPartition.name }) : t("Default")}
        data={partitions.items.map((partition) => ({
          value: partition.name,
          label: [
            partition.name,
            t("{{count}} nodes", { count: partition.node_count }),
            ...(partition.up ? [] : [t("jobs wait: it is down")]),
            ...(partition.max_time_s === null ? [] : [t("max. {{time}}", { time: formatDuration(partition.max_time_s) })]),
          ].join(" · "),
          disabled: !partition.accepts_jobs,
        }))}
        value={slurm.partition}
        error={errors.partition}
        onChange={(partition) => set({ partition })}
        clearable
        data-testid="launch-partition"
      />
      {partitions.qos.length > 0 && (
        <Select
          label="QOS"
          placeholder={t("Default")}
          data={partitions.qos}
          value={slurm.qos}
          error={errors.qos}
          onChange={(qos) => set({ qos })}
          clearable
        />
      )}
      <TextInput
        label={t("Node features")}
        placeholder="nvlink&ib"
        value={slurm.constraint}
        error={errors.constraint}
        maxLength={200}
        onChange={(event) => set({ constraint: event.currentTarget.value })}
      />
    </>
  );
}
