import { ActionIcon, Button, Select, SegmentedControl, SimpleGrid, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { templatesQuery } from "@/api/queries";
import type { Scalar, Template } from "@/api/types";
import { ParameterField } from "@/components/ParameterField";
import { envOf, envText, numberOrText, type Path } from "@/lib/job-yaml";
import classes from "@/pages/Compose.module.css";

interface Props {
  value: Record<string, unknown>;
  projects: readonly string[];
  /** By the field's dotted name. */
  errors: Record<string, string>;
  onSet: (path: Path, value: unknown) => void;
}

const MONO = { input: { fontFamily: "var(--mono)", fontSize: 13 } };

/** The fields that most jobs have. Whatever else the text says stays in the text. */
export function ComposeForm({ value, projects, errors, onSet }: Props) {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const template = templates.find((each) => each.name === value.template);
  const text = (...path: string[]) => textAt(value, path);
  const field = (...path: string[]) => {
    const name = path.join(".");
    return { value: text(...path), error: errors[name], "data-testid": `compose-${name}` };
  };
  const amount = (...path: string[]) => ({
    ...field(...path),
    onChange: (event: React.ChangeEvent<HTMLInputElement>) => onSet(path, numberOrText(event.currentTarget.value)),
  });
  const words = (...path: string[]) => ({
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
        <TextInput label={t("Name")} {...words("name")} />
        <Select
          label={t("Project")}
          placeholder={t("Your default")}
          clearable
          data={[...new Set([...projects, ...[text("project")].filter(Boolean)])]}
          {...field("project")}
          value={text("project") || null}
          onChange={(project) => onSet(["project"], project)}
        />
        <Select
          label={t("Template")}
          placeholder={t("None: commands of your own")}
          clearable
          data={templates.map(({ name, title }) => ({ value: name, label: title }))}
          {...field("template")}
          value={text("template") || null}
          onChange={(name) => onSet(["template"], name)}
        />
        <TextInput label={t("Image")} placeholder={t("None: the node as it is")} {...words("image")} />
      </SimpleGrid>
      {template && <Parameters template={template} value={value} errors={errors} onSet={onSet} />}
      {!text("template") && <Commands commands={listAt(value, "commands")} error={errors.commands} onSet={onSet} />}
      <fieldset className={classes.group}>
        <legend>{t("Resources")}</legend>
        <SimpleGrid cols={{ base: 2, xs: 3 }} spacing="sm">
          <TextInput label={t("Nodes")} placeholder="1" inputMode="numeric" {...amount("resources", "nodes")} />
          <TextInput label={t("CPUs")} inputMode="numeric" {...amount("resources", "cpu")} />
          <TextInput label={t("Memory")} placeholder="16G" {...words("resources", "memory")} />
          <TextInput label={t("GPUs")} placeholder="a100:2" {...amount("resources", "gpu")} />
          <TextInput label={t("Time limit")} placeholder="4h" {...words("max_duration")} />
          <TextInput label={t("Array")} placeholder="0-9%2" {...words("array")} />
        </SimpleGrid>
      </fieldset>
      <fieldset className={classes.group}>
        <legend>{t("Where and with what")}</legend>
        <TextInput label={t("Folder")} placeholder="~/project" {...words("workdir")} />
        <TagsInput label={t("Datasets")} placeholder="div2k:1.0" value={listAt(value, "datasets")} error={errors.datasets} onChange={(each) => onSet(["datasets"], each)} />
        {!text("image") && (
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="sm">
            <TagsInput
              label={t("Modules")}
              placeholder="cuda/12.6"
              value={listAt(value, "environment", "modules")}
              error={errors["environment.modules"]}
              onChange={(each) => onSet(["environment", "modules"], each)}
            />
            <TextInput label={t("Python environment")} placeholder="~/venvs/train" {...words("environment", "venv")} />
          </SimpleGrid>
        )}
        <Variables env={value.env} error={errors.env} onSet={onSet} />
      </fieldset>
      <fieldset className={classes.group}>
        <legend>Slurm</legend>
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          <TextInput label={t("Partition")} {...words("slurm", "partition")} />
          <TextInput label="QOS" {...words("slurm", "qos")} />
          <TextInput label={t("Node features")} {...words("slurm", "constraint")} />
        </SimpleGrid>
      </fieldset>
    </div>
  );
}

function Parameters({ template, value, errors, onSet }: { template: Template } & Omit<Props, "projects">) {
  const { t } = useTranslation();
  if (template.parameters.length === 0) return null;
  const given = (value.parameters ?? {}) as Record<string, Scalar | undefined>;
  return (
    <fieldset className={classes.group}>
      <legend>{t("Settings")}</legend>
      {template.parameters.map((parameter) => (
        <ParameterField
          key={parameter.name}
          parameter={parameter}
          value={given[parameter.name] ?? parameter.default ?? (parameter.type === "boolean" ? false : "")}
          error={errors[`parameters.${parameter.name}`]}
          onChange={(next) => onSet(["parameters", parameter.name], next)}
        />
      ))}
    </fieldset>
  );
}

function Commands({ commands, error, onSet }: { commands: string[]; error: string | undefined; onSet: Props["onSet"] }) {
  const { t } = useTranslation();
  const shown = commands.length === 0 ? [""] : commands;
  const change = (next: string[]) => onSet(["commands"], next.length === 1 && next[0] === "" ? undefined : next);
  return (
    <fieldset className={classes.group}>
      <legend>{t("Commands")}</legend>
      {shown.map((command, index) => (
        <div key={index} className={classes.command}>
          <Textarea
            aria-label={t("Command {{number}}", { number: index + 1 })}
            placeholder="python train.py"
            value={command}
            autosize
            minRows={shown.length === 1 ? 3 : 1}
            maxRows={14}
            spellCheck={false}
            styles={MONO}
            error={index === 0 ? error : undefined}
            onChange={(event) => change(shown.with(index, event.currentTarget.value))}
            data-testid={`compose-command-${index}`}
          />
          {shown.length > 1 && (
            <ActionIcon variant="subtle" color="gray" aria-label={t("Remove command {{number}}", { number: index + 1 })} onClick={() => change(shown.toSpliced(index, 1))}>
              <Trash2 size={15} />
            </ActionIcon>
          )}
        </div>
      ))}
      <Button size="compact-sm" variant="subtle" leftSection={<Plus size={14} />} onClick={() => change([...shown, "echo"])} style={{ justifySelf: "start" }}>
        {t("Another command")}
      </Button>
    </fieldset>
  );
}

/** Its own text while somebody types, for half a line is no variable yet. What does not fit on lines is left to the file. */
function Variables({ env, error, onSet }: { env: unknown; error: string | undefined; onSet: Props["onSet"] }) {
  const { t } = useTranslation();
  const said = envText(env);
  const [typed, setTyped] = useState(said);
  const fits = envText(envOf(said)) === said;
  if (fits && envText(envOf(typed)) !== said) setTyped(said);
  return (
    <Textarea
      label={t("Variables")}
      description={fits ? undefined : t("One of them has several lines: change them in the file.")}
      placeholder="OMP_NUM_THREADS=4"
      value={fits ? typed : said}
      readOnly={!fits}
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
  const found = at(value, path);
  if (typeof found === "string") return found;
  return typeof found === "number" || typeof found === "boolean" ? String(found) : "";
}

function listAt(value: unknown, ...path: string[]): string[] {
  const found = at(value, path);
  return Array.isArray(found) ? found.map(String) : typeof found === "string" ? [found] : [];
}
