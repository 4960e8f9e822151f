import { Input, SegmentedControl, TextInput } from "@mantine/core";
import { useId } from "@mantine/hooks";
import { useTranslation } from "react-i18next";
import type { EnvironmentValues } from "./launch";

interface Props {
  value: EnvironmentValues;
  error: string | undefined;
  onChange: (change: Partial<EnvironmentValues>) => void;
}

/** The Python environment of a job without an image. */
export function PythonField({ value, error, onChange }: Props) {
  const { t } = useTranslation();
  const id = useId();
  return (
    <>
      <Input.Wrapper label={t("Python environment")} labelElement="div" labelProps={{ id }}>
        <SegmentedControl
          mt={4}
          fullWidth
          aria-labelledby={id}
          data={[
            { value: "none", label: t("None") },
            { value: "venv", label: "venv" },
            { value: "conda", label: "conda" },
          ]}
          value={value.kind}
          onChange={(kind) => onChange({ kind })}
          data-testid="launch-python-kind"
        />
      </Input.Wrapper>
      {value.kind !== "none" && (
        <TextInput
          label={value.kind === "venv" ? t("Path of the venv") : t("Name or path of the conda environment")}
          placeholder={value.kind === "venv" ? "~/venvs/train" : "~/conda/train"}
          value={value.python}
          error={error}
          maxLength={4_096}
          spellCheck={false}
          autoCapitalize="none"
          onChange={(event) => onChange({ python: event.currentTarget.value })}
          styles={{ input: { fontFamily: "var(--mono)", fontSize: 13.5 } }}
          data-testid="launch-python"
        />
      )}
    </>
  );
}
