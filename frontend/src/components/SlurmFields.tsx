import { Select, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Partitions } from "@/api/types";
import type { LaunchValues } from "@/lib/launch";
import { durationWords } from "@/lib/time";

interface Props {
  values: LaunchValues;
  partitions: Partitions;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

/** What only Slurm knows: where to wait, and on which kind of node. */
export function SlurmFields({ values, partitions, errors, onChange }: Props) {
  const { t } = useTranslation();
  const { slurm } = values;
  const set = (change: Partial<LaunchValues["slurm"]>) => onChange({ slurm: { ...slurm, ...change } });
  const usual = partitions.items.find((partition) => partition.default);
  return (
    <>
      <Select
        label={t("Partition")}
        placeholder={usual ? t("{{name}} (the usual one)", { name: usual.name }) : t("The usual one")}
        data={partitions.items.map((partition) => ({
          value: partition.name,
          label: [
            partition.name,
            t("{{count}} nodes", { count: partition.node_count }),
            ...(partition.max_time_s === null ? [] : [t("at most {{time}}", { time: durationWords(partition.max_time_s) })]),
          ].join(" · "),
          disabled: !partition.up,
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
          placeholder={t("The usual one")}
          data={partitions.qos}
          value={slurm.qos}
          error={errors.qos}
          onChange={(qos) => set({ qos })}
          clearable
        />
      )}
      <TextInput
        label={t("Features of the nodes")}
        placeholder="nvlink&ib"
        value={slurm.constraint}
        error={errors.constraint}
        maxLength={200}
        onChange={(event) => set({ constraint: event.currentTarget.value })}
      />
    </>
  );
}
