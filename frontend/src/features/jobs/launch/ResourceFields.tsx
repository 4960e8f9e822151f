import { Chip, Group, Input, NumberInput, Select, Slider, TextInput } from "@mantine/core";
import { useId } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Plan } from "@/api/types";
import { durationWords, formatDuration, parseDuration } from "@/lib/time";
import { formatBytes, memoryStops } from "@/lib/units";
import { type Bounds, cpuChoices, durationChoices, gpuChoices, type LaunchValues } from "./launch";
import classes from "./LaunchDrawer.module.css";

interface Props {
  values: LaunchValues;
  bounds: Bounds;
  /** What the scheduler would use for fields that the form leaves to it; undefined until there is a plan. */
  planned: Plan["spec"] | undefined;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

/** Nodes, CPUs, memory, GPUs and time limit; fields without a choice are hidden. */
export function ResourceFields({ values, bounds, planned, errors, onChange }: Props) {
  const { t } = useTranslation();
  const several = values.nodes > 1;
  return (
    <>
      {bounds.nodes.max > bounds.nodes.min && (
        <Count
          label={t("Nodes")}
          testId="resource-nodes"
          value={values.nodes}
          min={bounds.nodes.min}
          max={bounds.nodes.max}
          error={errors.nodes}
          onChange={(nodes) => onChange({ nodes })}
        />
      )}
      <Count
        label={several ? t("CPUs per node") : t("CPUs")}
        testId="resource-cpus"
        value={values.cpu}
        min={bounds.cpu.min}
        max={bounds.cpu.max}
        picks={cpuChoices(bounds.cpu)}
        error={errors.cpu}
        onChange={(cpu) => onChange({ cpu })}
      />
      <Memory label={several ? t("Memory per node") : t("Memory")} values={values} bounds={bounds} planned={planned} error={errors.memory} onChange={onChange} />
      {(bounds.gpuMax > 0 || values.gpuCount > 0) && (
        <Gpus label={several ? t("GPUs per node") : t("GPUs")} values={values} bounds={bounds} error={errors.gpu} onChange={onChange} />
      )}
      <TimeLimit values={values} bounds={bounds} planned={planned} error={errors.duration} onChange={onChange} />
    </>
  );
}

interface CountProps {
  label: string;
  testId: string;
  value: number;
  min: number;
  max: number;
  picks?: number[];
  error: string | undefined;
  onChange: (value: number) => void;
}

function Count({ label, testId, value, min, max, picks = [], error, onChange }: CountProps) {
  const { t } = useTranslation();
  const id = useId();
  return (
    <div>
      <Input.Label htmlFor={id}>{label}</Input.Label>
      <div className={classes.pickRow}>
        <NumberInput
          id={id}
          value={value}
          min={min}
          max={max}
          allowDecimal={false}
          allowNegative={false}
          clampBehavior="blur"
          w={104}
          error={error !== undefined}
          onChange={(next) => {
            if (typeof next === "number") onChange(next);
          }}
          data-testid={testId}
        />
        <Picks
          label={t("{{label}}, common values", { label })}
          choices={picks.map((pick) => ({ value: pick, label: String(pick) }))}
          value={value}
          onChange={onChange}
        />
      </div>
      <ErrorLine text={error} />
    </div>
  );
}

interface PicksProps {
  label: string;
  choices: { value: number; label: string }[];
  value: number | null;
  onChange: (value: number) => void;
}

/** Buttons for common values. */
function Picks({ label, choices, value, onChange }: PicksProps) {
  if (choices.length < 2) return null;
  return (
    <div className={classes.choices} role="group" aria-label={label}>
      <Chip.Group value={value === null ? null : String(value)} onChange={(next: string) => onChange(Number(next))}>
        {choices.map((choice) => (
          <Chip key={choice.value} value={String(choice.value)} size="xs" radius="sm" variant="filled" icon={null}>
            {choice.label}
          </Chip>
        ))}
      </Chip.Group>
    </div>
  );
}

interface PartProps {
  values: LaunchValues;
  bounds: Bounds;
  error: string | undefined;
  onChange: (change: Partial<LaunchValues>) => void;
}

function Memory({ label, values, bounds, planned, error, onChange }: PartProps & { label: string; planned: Props["planned"] }) {
  const { t } = useTranslation();
  const id = useId();
  const byDefault = planned?.resources.memory_bytes ?? 0;
  const shown = values.memoryBytes ?? byDefault;
  const stops = memoryStops(bounds.memory.min, bounds.memory.max, values.memoryBytes === null ? [] : [values.memoryBytes]);
  const index = stops.findIndex((stop) => stop >= shown);
  const text = values.memoryBytes !== null ? formatBytes(shown) : shown > 0 ? t("{{amount}} by default", { amount: formatBytes(shown) }) : t("by default");
  return (
    <div>
      <div className={classes.valueLine}>
        <Input.Label labelElement="div" id={id}>
          {label}
        </Input.Label>
        <strong className="tabular">{text}</strong>
      </div>
      <Slider
        mt={6}
        min={0}
        max={stops.length - 1}
        step={1}
        value={index < 0 ? stops.length - 1 : index}
        onChange={(next) => onChange({ memoryBytes: stops[next] ?? values.memoryBytes })}
        label={null}
        thumbLabel={label}
        thumbProps={{ "aria-valuetext": text, "aria-labelledby": id }}
        data-testid="resource-memory"
      />
      <div className={classes.marks} aria-hidden>
        <span>{formatBytes(bounds.memory.min)}</span>
        <span>{formatBytes(bounds.memory.max)}</span>
      </div>
      <ErrorLine text={error} />
    </div>
  );
}

function Gpus({ label, values, bounds, error, onChange }: PartProps & { label: string }) {
  const { t } = useTranslation();
  return (
    <div>
      <Group align="flex-end" gap="sm">
        <Input.Wrapper label={label} labelElement="div">
          <Picks
            label={label}
            choices={gpuChoices(bounds.gpuMax).map((count) => ({
              value: count,
              label: count === 0 ? t("None") : String(count),
            }))}
            value={values.gpuCount}
            onChange={(gpuCount) => onChange({ gpuCount })}
          />
        </Input.Wrapper>
        {values.gpuCount > 0 && bounds.gpuTypes.length > 1 && (
          <Select
            label={t("Type")}
            w={150}
            data={[{ value: "", label: t("Any") }, ...bounds.gpuTypes]}
            value={values.gpuType ?? ""}
            allowDeselect={false}
            onChange={(type) => onChange({ gpuType: type === "" ? null : type })}
          />
        )}
      </Group>
      <ErrorLine text={error} />
    </div>
  );
}

function TimeLimit({ values, bounds, planned, error, onChange }: PartProps & { planned: Props["planned"] }) {
  const { t } = useTranslation();
  const id = useId();
  const choices = durationChoices(bounds.durationMax, values.durationS);
  const [text, setText] = useState(wordsOf(values.durationS));
  const [syncedS, setSyncedS] = useState(values.durationS);
  if (syncedS !== values.durationS) {
    setSyncedS(values.durationS);
    if (parseDuration(text) !== values.durationS) setText(wordsOf(values.durationS));
  }
  const invalid = values.durationTyped === null ? undefined : t("Enter a duration, such as 30m, 4h or 1d12h.");
  return (
    <div>
      <Input.Label htmlFor={id}>{t("Time limit")}</Input.Label>
      <div className={classes.pickRow}>
        <TextInput
          id={id}
          w={104}
          value={text}
          placeholder={planned === undefined ? undefined : t("{{amount}} by default", { amount: formatDuration(planned.max_duration_s) })}
          error={invalid !== undefined || error !== undefined}
          onChange={(event) => {
            const next = event.currentTarget.value;
            setText(next);
            if (next.trim() === "" && bounds.durationOptional) {
              onChange({ durationS: null, durationTyped: null });
              return;
            }
            const seconds = parseDuration(next);
            onChange(seconds !== null && seconds > 0 ? { durationS: seconds, durationTyped: null } : { durationTyped: next });
          }}
          data-testid="resource-duration"
        />
        <Picks
          label={t("Time limit, common values")}
          choices={choices.map((seconds) => ({ value: seconds, label: formatDuration(seconds) }))}
          value={values.durationS}
          onChange={(durationS) => {
            setText(durationWords(durationS));
            onChange({ durationS, durationTyped: null });
          }}
        />
      </div>
      <ErrorLine text={invalid ?? error} />
    </div>
  );
}

function wordsOf(seconds: number | null): string {
  return seconds === null ? "" : durationWords(seconds);
}

function ErrorLine({ text }: { text: string | undefined }) {
  return text === undefined ? null : (
    <div className={classes.error} role="alert">
      {text}
    </div>
  );
}
