import { Select, TextInput } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { PlacementValues } from "./launch";

interface Props {
  value: PlacementValues;
  /** Whether the job requests several nodes. */
  several: boolean;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<PlacementValues>) => void;
}

/** Host lists as they are typed. */
const EXAMPLES = { nodes: "gpu[03-05]", exclude: "gpu07" };

/** On which nodes a job runs, and whether it waits for those that are near each other. */
export function PlacementFields({ value, several, errors, onChange }: Props) {
  const { t } = useTranslation();
  return (
    <>
      {several && (
        <Select
          label={t("Fewest leaf switches")}
          placeholder={t("Not requested")}
          clearable
          data={[
            { value: "prefer", label: t("Preferred") },
            { value: "require", label: t("Required") },
          ]}
          value={value.compact}
          error={errors.compact}
          onChange={(compact) => onChange({ compact })}
          data-testid="launch-compact"
        />
      )}
      <TextInput
        label={t("Node list")}
        placeholder={EXAMPLES.nodes}
        value={value.nodes}
        error={errors.onNodes}
        maxLength={2_000}
        onChange={(event) => onChange({ nodes: event.currentTarget.value })}
      />
      <TextInput
        label={t("Excluded nodes")}
        placeholder={EXAMPLES.exclude}
        value={value.exclude}
        error={errors.notOnNodes}
        maxLength={2_000}
        onChange={(event) => onChange({ exclude: event.currentTarget.value })}
        data-testid="launch-exclude"
      />
    </>
  );
}
