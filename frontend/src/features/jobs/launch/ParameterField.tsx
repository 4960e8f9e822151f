import { Input, NumberInput, SegmentedControl, Select, Switch, Textarea, TextInput } from "@mantine/core";
import { useId } from "@mantine/hooks";
import type { Parameter, Scalar } from "@/api/types";

interface Props {
  parameter: Parameter;
  value: Scalar;
  error: string | undefined;
  onChange: (value: Scalar) => void;
}

/** More choices than this are shown in a dropdown list. */
const MAX_SEGMENTS = 4;

/** The input of a template's parameter, by its type. */
export function ParameterField({ parameter, value, error, onChange }: Props) {
  const common = {
    label: parameter.title,
    description: parameter.description === "" ? undefined : parameter.description,
    error,
    required: parameter.type !== "boolean" && parameter.default === null,
    "data-testid": `parameter-${parameter.name}`,
  };
  const mono = { input: { fontFamily: "var(--mono)", fontSize: 13.5 } };
  switch (parameter.type) {
    case "text":
      return (
        <Textarea
          {...common}
          value={String(value)}
          onChange={(event) => onChange(event.currentTarget.value)}
          autosize
          minRows={5}
          maxRows={16}
          spellCheck={false}
          styles={mono}
        />
      );
    case "integer":
    case "number":
      return (
        <NumberInput
          {...common}
          value={typeof value === "boolean" ? "" : value}
          onChange={onChange}
          {...(parameter.minimum === null ? {} : { min: parameter.minimum })}
          {...(parameter.maximum === null ? {} : { max: parameter.maximum })}
          allowDecimal={parameter.type === "number"}
          step={stepOf(parameter, value)}
          clampBehavior="none"
        />
      );
    case "boolean":
      return (
        <Switch
          {...common}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "choice":
      return parameter.choices.length <= MAX_SEGMENTS ? (
        <Segments parameter={parameter} value={String(value)} error={error} onChange={onChange} />
      ) : (
        <Select
          {...common}
          data={parameter.choices}
          value={value === "" ? null : String(value)}
          onChange={(choice) => onChange(choice ?? "")}
          searchable={parameter.choices.length > 8}
          allowDeselect={false}
        />
      );
    case "path":
    case "string":
      return (
        <TextInput
          {...common}
          value={String(value)}
          onChange={(event) => onChange(event.currentTarget.value)}
          spellCheck={false}
          autoCapitalize="none"
          {...(parameter.type === "path" ? { placeholder: "~/path", styles: mono } : {})}
        />
      );
  }
}

/** Step of a number input: one for integers, the value's order of magnitude for fractions. */
function stepOf(parameter: Parameter, value: Scalar): number {
  if (parameter.type === "integer") return 1;
  const size = Math.abs(Number(value)) || 0.1;
  return 10 ** Math.floor(Math.log10(size));
}

function Segments({ parameter, value, error, onChange }: Omit<Props, "value"> & { value: string }) {
  const id = useId();
  return (
    <Input.Wrapper
      label={parameter.title}
      labelElement="div"
      labelProps={{ id }}
      required={parameter.default === null}
      description={parameter.description === "" ? undefined : parameter.description}
      error={error}
    >
      <SegmentedControl
        mt={4}
        fullWidth
        data={parameter.choices}
        value={value}
        onChange={onChange}
        aria-labelledby={id}
        data-testid={`parameter-${parameter.name}`}
      />
    </Input.Wrapper>
  );
}
