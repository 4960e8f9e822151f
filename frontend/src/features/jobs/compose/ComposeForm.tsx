import { ActionIcon, Button, Input, Select, SegmentedControl, SimpleGrid, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { templatesQuery } from "@/api/queries";
import type { Scalar, Template } from "@/api/types";
import { ParameterField } from "@/features/jobs/launch/ParameterField";
import { envOf, envText, numberOrText, type Path } from "./job-yaml";
import classes from "./Compose.module.css";

interface Props {
  value: Record<string, unknown>;
  projects: readonly string[];
  /** By dotted field name. */
  errors: Record<string, string>;
  onSet: (path: Path, value: unknown) => void;
}

/** Host lists as they are typed. */
const EXAMPLES = { nodes: "gpu[03-05]", exclude: "gpu07" };
const MONO = { input: { fontFamily: "var(--mono)", fontSize: 13 } };

/** A form for the common fields of a job file; other fields are edited in the text. */
export function ComposeForm({ value, projects, errors, onSet }: Props) {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const template = templates.find((entry) => entry.name === value.template);
  const text = (...path: string[]) => textAt(value, path);
  const field = (...path: string[]) => {
    const name = path.join(".");
    return { value: text(...path), error: errors[name], "data-testid": `compose-${name}` };
  };
  const numberField = (...path: string[]) => ({
    ...field(...path),
    onChange: (event: React.ChangeEvent<HTMLInputElement>) => onSet(path, numberOrText(event.currentTarget.value)),
  });
  const textField = (...path: string[]) => ({
    ...field(...path),
    onChange: (event: React.ChangeEvent<HTMLInputElement>) => onSet(path, event.currentTarget.value),
  });
  return (
    <div className={classes.form}>
      <SegmentedControl
        aria-label={t("Type")}
        data={[
          { value: "job", label: t("Job") },
          { value: "session", label: t("Session") },
        ]}
        value={text("type") === "session" ? "session" : "job"}
        onChange={(type) => onSet(["type"], type === "job" ? undefined : type)}
      />
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
        <TextInput label={t("Name")} {...textField("name")} />
        <Select
          label={t("Project")}
          placeholder={t("Default project")}
          clearable
          data={[...new Set([...projects, ...[text("project")].filter(Boolean)])]}
          {...field("project")}
          value={text("project") || null}
          onChange={(project) => onSet(["project"], project)}
        />
        <Select
          label={t("Template")}
          placeholder={t("No template")}
          clearable
          data={templates.map(({ name, title }) => ({ value: name, label: title }))}
          {...field("template")}
          value={text("template") || null}
          onChange={(name) => onSet(["template"], name)}
        />
        <TextInput label={t("Image")} placeholder={t("No container (host software)")} {...textField("image")} />
      </SimpleGrid>
      {template && <Parameters template={template} value={value} errors={errors} onSet={onSet} />}
      {!text("template") && !value.notebook && <Commands commands={listAt(value, "commands")} error={errors.commands} onSet={onSet} />}
      <fieldset className={classes.group}>
        <legend>{t("Resources")}</legend>
        <SimpleGrid cols={{ base: 2, xs: 3 }} spacing="sm">
          <TextInput label={t("Nodes")} placeholder="1" inputMode="numeric" {...numberField("resources", "nodes")} />
          <TextInput label={t("CPUs")} placeholder="8" inputMode="numeric" {...numberField("resources", "cpu")} />
          <TextInput label={t("Memory")} placeholder="16G" {...textField("resources", "memory")} />
          <TextInput label={t("GPUs")} placeholder="a100:2" {...numberField("resources", "gpu")} />
          <TextInput label={t("Time limit")} placeholder="4h" {...textField("max_duration")} />
          <TextInput label={t("Array")} placeholder="0-9%2" {...textField("array")} />
        </SimpleGrid>
      </fieldset>
      <fieldset className={classes.group}>
        <legend>{t("Environment")}</legend>
        <TextInput label={t("Folder")} placeholder="~/project" {...textField("workdir")} />
        <TagsInput label={t("Datasets")} placeholder="div2k:1.0" value={listAt(value, "datasets")} error={errors.datasets} onChange={(datasets) => onSet(["datasets"], datasets)} />
        {!text("image") && (
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
            <TagsInput
              label={t("Modules")}
              placeholder="cuda/12.6"
              value={listAt(value, "environment", "modules")}
              error={errors["environment.modules"]}
              onChange={(modules) => onSet(["environment", "modules"], modules)}
            />
            <TextInput label={t("Python environment")} placeholder="~/venvs/train" {...textField("environment", "venv")} />
          </SimpleGrid>
        )}
        <Variables env={value.env} error={errors.env} onSet={onSet} />
      </fieldset>
      <fieldset className={classes.group}>
        <legend>Slurm</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          <TextInput label={t("Partition")} {...textField("slurm", "partition")} />
          <TextInput label="QOS" {...textField("slurm", "qos")} />
          <TextInput label={t("Node features")} {...textField("slurm", "constraint")} />
        </SimpleGrid>
      </fieldset>
      <fieldset className={classes.group}>
        <legend>{t("Placement")}</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          <Select
            label={t("Fewest leaf switches")}
            placeholder={t("Not requested")}
            clearable
            data={[
              { value: "prefer", label: t("Preferred") },
              { value: "require", label: t("Required") },
            ]}
            {...field("placement", "compact")}
            value={["prefer", "require"].find((value) => value === text("placement", "compact")) ?? null}
            onChange={(compact) => onSet(["placement", "compact"], compact)}
          />
          <TextInput label={t("Maximum wait for switches")} placeholder="10m" {...textField("placement", "wait")} />
          <Select
            label={t("Binding of ranks")}
            placeholder={t("NUMA node of the GPU")}
            clearable
            data={[
              { value: "cores", label: t("Even parts of the cores") },
              { value: "off", label: t("None") },
            ]}
            {...field("placement", "bind")}
            value={["cores", "off"].find((value) => value === text("placement", "bind")) ?? null}
            onChange={(bind) => onSet(["placement", "bind"], bind)}
          />
          <TextInput label={t("Order of the ranks")} placeholder="file:~/order.txt" {...textField("placement", "order")} />
          <TextInput label={t("Node list")} placeholder={EXAMPLES.nodes} {...textField("placement", "nodes")} value={listAt(value, "placement", "nodes").join(",")} />
          <TextInput label={t("Excluded nodes")} placeholder={EXAMPLES.exclude} {...textField("placement", "exclude")} value={listAt(value, "placement", "exclude").join(",")} />
        </SimpleGrid>
        <SimpleGrid cols={3} spacing="sm">
          <TextInput label={t("Tensor parallel")} placeholder="1" inputMode="numeric" {...numberField("placement", "mesh", "tensor")} />
          <TextInput label={t("Pipeline parallel")} placeholder="1" inputMode="numeric" {...numberField("placement", "mesh", "pipeline")} />
          <TextInput label={t("Data parallel")} placeholder="1" inputMode="numeric" {...numberField("placement", "mesh", "data")} />
        </SimpleGrid>
        {["placement.mesh", "placement"].map(
          (name) =>
            errors[name] !== undefined && (
              <Input.Error key={name} data-testid={`compose-error-${name}`}>
                {errors[name]}
              </Input.Error>
            ),
        )}
      </fieldset>
    </div>
  );
}

function Parameters({ template, value, errors, onSet }: { template: Template } & Omit<Props, "projects">) {
  const { t } = useTranslation();
  if (template.parameters.length === 0) return null;
  const parameters = (value.parameters ?? {}) as Record<string, Scalar | undefined>;
  return (
    <fieldset className={classes.group}>
      <legend>{t("Settings")}</legend>
      {template.parameters.map((parameter) => (
        <ParameterField
          key={parameter.name}
          parameter={parameter}
          value={parameters[parameter.name] ?? parameter.default ?? (parameter.type === "boolean" ? false : "")}
          error={errors[`parameters.${parameter.name}`]}
          onChange={(next) => onSet(["parameters", parameter.name], next)}
        />
      ))}
    </fieldset>
  );
}

function Commands({ commands, error, onSet }: { commands: string[]; error: string | undefined; onSet: Props["onSet"] }) {
  const { t } = useTranslation();
  const fields = commands.length === 0 ? [""] : commands;
  const change = (next: string[]) => onSet(["commands"], next.length === 1 && next[0] === "" ? undefined : next);
  return (
    <fieldset className={classes.group}>
      <legend>{t("Commands")}</legend>
      {fields.map((command, index) => (
        <div key={index} className={classes.command}>
          <Textarea
            aria-label={t("Command {{number}}", { number: index + 1 })}
            placeholder="python train.py"
            value={command}
            autosize
            minRows={fields.length === 1 ? 3 : 1}
            maxRows={14}
            spellCheck={false}
            styles={MONO}
            error={index === 0 ? error : undefined}
            onChange={(event) => change(fields.with(index, event.currentTarget.value))}
            data-testid={`compose-command-${index}`}
          />
          {fields.length > 1 && (
            <ActionIcon variant="subtle" color="gray" aria-label={t("Remove command {{number}}", { number: index + 1 })} onClick={() => change(fields.toSpliced(index, 1))}>
              <Trash2 size={15} />
            </ActionIcon>
          )}
        </div>
      ))}
      <Button size="compact-sm" variant="subtle" leftSection={<Plus size={14} />} onClick={() => change([...fields, "echo"])} style={{ justifySelf: "start" }}>
        {t("Add command")}
      </Button>
    </fieldset>
  );
}

/** Keeps the typed text, because an incomplete line is not a variable yet. Multi-line values are read-only. */
function Variables({ env, error, onSet }: { env: unknown; error: string | undefined; onSet: Props["onSet"] }) {
  const { t } = useTranslation();
  const text = envText(env);
  const [typed, setTyped] = useState(text);
  const editable = envText(envOf(text)) === text;
  if (editable && envText(envOf(typed)) !== text) setTyped(text);
  return (
    <Textarea
      label={t("Variables")}
      description={editable ? undefined : t("Multi-line values can only be edited in the job file.")}
      placeholder="OMP_NUM_THREADS=4"
      value={editable ? typed : text}
      readOnly={!editable}
      error={error}
      autosize
      minRows={1}
      maxRows={10}
      spellCheck={false}
      styles={MONO}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        onSet(["env"], envOf(event.currentTarget.value));
      }}
    />
  );
}

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((part, name) => (typeof part === "object" && part !== null ? (part as Record<string, unknown>)[name] : undefined), value);
}

function textAt(value: unknown, path: readonly string[]): string {
  const entry = at(value, path);
  if (typeof entry === "string") return entry;
  return typeof entry === "number" || typeof entry === "boolean" ? String(entry) : "";
}

function listAt(value: unknown, ...path: string[]): string[] {
  const entry = at(value, path);
  return Array.isArray(entry) ? entry.map(String) : typeof entry === "string" ? [entry] : [];
}
