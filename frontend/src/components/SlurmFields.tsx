import { Select, TextInput } from "@mantine/core";
import type { Partitions } from "@/api/types";
import type { LaunchValues } from "@/lib/launch";
import { durationWords } from "@/lib/time";
import { plural } from "@/lib/units";

interface Props {
  values: LaunchValues;
  partitions: Partitions;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

/** What only Slurm knows: where to wait, and on which kind of node. */
export function SlurmFields({ values, partitions, errors, onChange }: Props) {
  const { slurm } = values;
  const set = (change: Partial<LaunchValues["slurm"]>) => onChange({ slurm: { ...slurm, ...change } });
  const usual = partitions.items.find((partition) => partition.default);
  return (
    <>
      <Select
        label="Partition"
        placeholder={usual ? `${usual.name} (the usual one)` : "The usual one"}
        data={partitions.items.map((partition) => ({
          value: partition.name,
          label: `${partition.name} · ${plural(partition.node_count, "node")}${
            partition.max_time_s === null ? "" : ` · at most ${durationWords(partition.max_time_s)}`
          }`,
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
          placeholder="The usual one"
          data={partitions.qos}
          value={slurm.qos}
          error={errors.qos}
          onChange={(qos) => set({ qos })}
          clearable
        />
      )}
      <TextInput
        label="Features of the nodes"
        placeholder="such as nvlink&ib"
        value={slurm.constraint}
        error={errors.constraint}
        maxLength={200}
        onChange={(event) => set({ constraint: event.currentTarget.value })}
      />
    </>
  );
}
