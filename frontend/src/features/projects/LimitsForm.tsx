import { Group, NumberInput, TagsInput, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Limits, LimitsInput } from "@/api/projects";
import { capacityQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { useProblems } from "@/hooks/use-problems";
import { durationWords } from "@/lib/time";
import { memoryText } from "@/lib/units";
import { limitAmount, limitTitle, typedLimit } from "./limits";
import classes from "./Projects.module.css";

const COUNTS = ["max_gpus", "max_cpus", "max_nodes", "max_jobs", "max_submitted"] as const;
type Count = (typeof COUNTS)[number];
type Form = Record<Count, number | ""> & { max_memory_bytes: string; max_wall_s: string; types: Record<string, number>; qos: string[] };

function formOf(limits: Limits): Form {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, limits[name] ?? ""])) as Record<Count, number | "">;
  return {
    ...counts,
    max_memory_bytes: limits.max_memory_bytes === null ? "" : memoryText(limits.max_memory_bytes),
    max_wall_s: limits.max_wall_s === null ? "" : durationWords(limits.max_wall_s),
    types: limits.max_gpus_by_type,
    qos: limits.qos,
  };
}

/** The limits of the form; fields that it does not show (hours counted by Slurm) are unchanged. */
function limitsOf(form: Form, limits: Limits): LimitsInput {
  const counts = Object.fromEntries(COUNTS.map((name) => [name, form[name] === "" ? null : form[name]]));
  return {
    ...limits,
    ...counts,
    max_memory_bytes: form.max_memory_bytes.trim() || null,
    max_wall_s: form.max_wall_s.trim() || null,
    max_gpus_by_type: form.types,
    qos: form.qos,
  };
}

/** The GPU types of the cluster and those with a limit. */
function useGpuTypes(...limits: (Limits | undefined)[]): string[] {
  const { data } = useQuery(capacityQuery);
  const limited = limits.flatMap((entry) => Object.keys(entry?.max_gpus_by_type ?? {}));
  return [...new Set([...(data?.gpus.map((entry) => entry.type) ?? []), ...limited])].filter((type) => type !== null).sort();
}

interface Props {
  limits: Limits;
  /** Limits that cannot be exceeded; shown as placeholders. */
  within?: Limits;
  /** Prefix of a field's name in the API's problems. */
  prefix?: string;
  busy: boolean;
  error: unknown;
  onSave: (limits: LimitsInput) => void;
}

/** A form of limits; an empty field means no limit. */
export function LimitsForm({ limits, within, prefix = "", busy, error, onSave }: Props) {
  const { t } = useTranslation();
  const [form, setForm] = useState(() => formOf(limits));
  const types = useGpuTypes(limits, within);
  const fields = [...COUNTS, "max_memory_bytes", "max_wall_s"] as const;
  const { errorOf, hasOtherErrors } = useProblems(error, [...fields, ...types.map(typedLimit), "qos"].map((field) => prefix + field));
  const hint = (name: string, limit: number | null | undefined) =>
    limit === null || limit === undefined ? t("no limit") : t("max. {{most}}", { most: limitAmount(name, limit) });
  const setType = (type: string, count: number | string) =>
    setForm((old) => {
      const others = Object.fromEntries(Object.entries(old.types).filter(([name]) => name !== type));
      return { ...old, types: typeof count === "number" ? { ...others, [type]: count } : others };
    });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSave(limitsOf(form, limits));
  };
  return (
    <form onSubmit={submit}>
      {hasOtherErrors && <FormProblem error={error} />}
      <div className={classes.limits}>
        {COUNTS.map((name) => (
          <NumberInput
            key={name}
            label={limitTitle(name)}
            placeholder={hint(name, within?.[name])}
            value={form[name]}
            error={errorOf(prefix + name)}
            onChange={(value) => setForm((old) => ({ ...old, [name]: typeof value === "number" ? value : "" }))}
            min={0}
            allowDecimal={false}
          />
        ))}
        {types.map((type) => (
          <NumberInput
            key={type}
            label={limitTitle(typedLimit(type))}
            placeholder={hint(typedLimit(type), within?.max_gpus_by_type[type] ?? within?.max_gpus)}
            value={form.types[type] ?? ""}
            error={errorOf(prefix + typedLimit(type))}
            onChange={(value) => setType(type, value)}
            min={0}
            allowDecimal={false}
            data-testid={`limit-${type}`}
          />
        ))}
        {(["max_memory_bytes", "max_wall_s"] as const).map((name) => (
          <TextInput
            key={name}
            label={limitTitle(name)}
            placeholder={hint(name, within?.[name])}
            description={name === "max_wall_s" ? t("For example, 2d or 12h") : t("For example, 200G")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            value={form[name]}
            error={errorOf(prefix + name)}
            onChange={(event) => {
              const { value } = event.currentTarget;
              setForm((old) => ({ ...old, [name]: value }));
            }}
          />
        ))}
        <TagsInput
          label={t("Allowed QOS")}
          description={within === undefined ? t("Leave blank to inherit from the cluster") : t("Leave blank to inherit")}
          inputWrapperOrder={["label", "input", "description", "error"]}
          placeholder={form.qos.length > 0 ? "" : within?.qos.length ? within.qos.join(", ") : t("no limit")}
          data={within?.qos ?? []}
          value={form.qos}
          error={errorOf(`${prefix}qos`)}
          onChange={(names) => setForm((old) => ({ ...old, qos: [...new Set(names.flatMap((entry) => entry.split(/[,\s]+/)).filter(Boolean))] }))}
          splitChars={[",", " "]}
          acceptValueOnBlur
          data-testid="limit-qos"
        />
      </div>
      <Group mt="md">
        <ChangeButton type="submit" loading={busy} data-testid="limits-save">
          {t("Save limits")}
        </ChangeButton>
      </Group>
    </form>
  );
}
