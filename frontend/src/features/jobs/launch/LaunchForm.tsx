import { ActionIcon, Alert, Anchor, Button, Select, Text, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import i18next from "i18next";
import { BookmarkPlus, CircleAlert, Info, Rocket } from "lucide-react";
import { type SubmitEvent, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { launch } from "@/api/actions";
import { type Preset, useRememberLaunch } from "@/api/preferences";
import { ApiProblem } from "@/api/problem";
import { messageOf } from "@/api/problem";
import { keys, partitionsQuery, planQuery } from "@/api/queries";
import type { ClusterNode, JobFile, JobPage, Me, Template } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { PlanView } from "@/components/PlanView";
import { SharedAccountNote } from "@/components/SharedAccountNote";
import { useRefusal } from "@/hooks/use-refusal";
import { uuid } from "@/lib/id";
import { AdvancedFields } from "./AdvancedFields";
import { DatasetField } from "./DatasetField";
import { ImageField } from "./ImageField";
import {
  boundsOf,
  type FormProblems,
  initialValues,
  isBare,
  type LaunchValues,
  localProblems,
  mapProblems,
  toJobFile,
} from "./launch";
import { valuesOf } from "./launch-values";
import { LaunchStorage } from "./LaunchStorage";
import { ParameterField } from "./ParameterField";
import { PythonField } from "./PythonField";
import { ResourceFields } from "./ResourceFields";
import { SavePresetModal } from "./SavePresetModal";
import { SlurmFields } from "./SlurmFields";
import classes from "./LaunchDrawer.module.css";

interface Props {
  template: Template;
  /** Values to begin with: those of a preset, else of the last launch, else the template's defaults. */
  preset: Preset | undefined;
  last: JobFile | undefined;
  me: Me;
  nodes: readonly ClusterNode[];
  onClose: () => void;
}

const PLAN_DELAY_MS = 300;

export function LaunchForm({ template, preset, last, me, nodes, onClose }: Props) {
  const { t } = useTranslation();
  const defaults = () => initialValues(template, me.user.default_project, nodes);
  const [values, setValues] = useState(() => {
    const filled = preset?.file ?? last;
    return filled === undefined ? defaults() : valuesOf(filled, template, defaults(), boundsOf(template, nodes), me.projects);
  });
  const [filled, setFilled] = useState(preset !== undefined || last !== undefined);
  const [saving, setSaving] = useState(false);
  const [submitted, setSubmitted] = useState(false);
  const bounds = useMemo(() => boundsOf(template, nodes), [template, nodes]);
  const file = useMemo(() => toJobFile(template, values), [template, values]);
  const local = useMemo(() => localProblems(template, values), [template, values]);
  const complete = Object.keys(local).length === 0;

  const [debouncedFile] = useDebouncedValue(file, PLAN_DELAY_MS);
  const plan = useQuery({ ...planQuery(debouncedFile), enabled: complete && debouncedFile === file });
  const start = useLaunch(onClose);
  const refusal = useRefusal();
  const partitions = useQuery(partitionsQuery).data;

  const problems = problemsOf(template, start.error) ?? (complete ? problemsOf(template, plan.error) : null);
  const errors = { ...problems?.fields, ...(submitted ? local : {}) };
  const set = (change: Partial<LaunchValues>) => {
    start.reset();
    setValues((old) => ({ ...old, ...change }));
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setSubmitted(true);
    if (complete && !start.isPending) start.mutate(file);
  };
  const bare = isBare(template, values);
  const fields = useFocusInView();
  // The general problems replace a plan that was rejected.
  const rejected = problems !== null && problems.general.length > 0 && plan.data === undefined;
  const requestError = start.error !== null && problemsOf(template, start.error) === null ? start.error : null;

  return (
    <>
      <form className={classes.content} onSubmit={submit} noValidate aria-label={t("Launch {{title}}", { title: template.title })}>
        <div className={classes.scroll} ref={fields}>
          <div className={classes.form}>
            <SharedAccountNote />
            {filled && (
              <Text size="sm" c="dimmed" mb={-10} data-testid="launch-filled">
                {preset ? t("Preset: {{name}}", { name: preset.name }) : t("Values of your last launch.")}{" "}
                <Anchor
                  component="button"
                  type="button"
                  size="sm"
                  onClick={() => {
                    set(defaults());
                    setFilled(false);
                  }}
                  data-testid="launch-defaults"
                >
                  {t("Use defaults")}
                </Anchor>
              </Text>
            )}
            {template.parameters.length > 0 && (
              <fieldset className={classes.group}>
                <legend className={classes.legend}>{t("Settings")}</legend>
                {template.parameters.map((parameter) => (
                  <ParameterField
                    key={parameter.name}
                    parameter={parameter}
                    value={values.parameters[parameter.name] ?? ""}
                    error={errors[`parameters.${parameter.name}`]}
                    onChange={(value) => set({ parameters: { ...values.parameters, [parameter.name]: value } })}
                  />
                ))}
              </fieldset>
            )}
            <fieldset className={classes.group}>
              <legend className={classes.legend}>{t("Software and data")}</legend>
              <ImageField template={template} values={values} errors={errors} onChange={set} />
              {bare && (
                <PythonField
                  value={values.environment}
                  error={errors.python}
                  onChange={(change) => set({ environment: { ...values.environment, ...change } })}
                />
              )}
              <DatasetField
                value={values.datasets}
                user={me.user.name}
                project={values.project}
                bare={bare}
                error={errors.datasets}
                onChange={(datasets) => set({ datasets })}
              />
            </fieldset>
            <fieldset className={classes.group}>
              <legend className={classes.legend}>{t("Resources")}</legend>
              <ResourceFields values={values} bounds={bounds} planned={plan.data?.spec} errors={errors} onChange={set} />
            </fieldset>
            <fieldset className={classes.group}>
              <legend className={classes.legend}>{t("More")}</legend>
              <TextInput
                label={t("Name")}
                placeholder={template.title}
                value={values.name}
                error={errors.name}
                maxLength={200}
                onChange={(event) => set({ name: event.currentTarget.value })}
                data-testid="launch-name"
              />
              {me.projects.length > 1 && (
                <Select
                  label={t("Project")}
                  data={me.projects}
                  value={values.project}
                  error={errors.project}
                  allowDeselect={false}
                  onChange={(project) => set({ project: project ?? me.user.default_project })}
                />
              )}
            </fieldset>
            {partitions !== undefined && partitions.items.length > 0 && (
              <fieldset className={classes.group}>
                <legend className={classes.legend}>Slurm</legend>
                <SlurmFields values={values} partitions={partitions} errors={errors} onChange={set} />
              </fieldset>
            )}
            <LaunchStorage project={values.project} />
            <AdvancedFields values={values} bare={bare} errors={errors} onChange={set} />
          </div>
        </div>
        <div className={classes.foot}>
          {requestError !== null && (
            <Alert color="red" icon={<CircleAlert size={18} />} mb="sm" role="alert" title={t("Launch failed")}>
              <CodeText>{messageOf(requestError)}</CodeText>
            </Alert>
          )}
          {problems?.general.map((text) => (
            <Alert key={text} color="red" icon={<CircleAlert size={18} />} mb="sm" role="alert">
              {text}
            </Alert>
          ))}
          {refusal !== null && (
            <Alert color="gray" icon={<Info size={18} />} mb="sm">
              {refusal}
            </Alert>
          )}
          {!rejected && (
            <PlanView
              plan={complete ? plan.data : undefined}
              error={problems === null && complete ? plan.error : null}
              hint={hintOf(values.durationTyped !== null, complete, problems)}
              fresh={debouncedFile === file && !plan.isFetching}
            />
          )}
          <div className={classes.buttons}>
            <Button variant="default" onClick={onClose}>
              {t("Close")}
            </Button>
            <Tooltip label={refusal ?? t("Save as preset")} multiline maw={280}>
              <ActionIcon variant="default" size={36} disabled={refusal !== null} aria-label={t("Save as preset")} onClick={() => setSaving(true)} data-testid="launch-save">
                <BookmarkPlus size={17} />
              </ActionIcon>
            </Tooltip>
            <Button
              type="submit"
              leftSection={<Rocket size={17} />}
              loading={start.isPending}
              disabled={refusal !== null || (plan.data?.fits === false && debouncedFile === file)}
              data-autofocus
              data-testid="launch-submit"
            >
              {t("Launch")}
            </Button>
          </div>
        </div>
      </form>
      {saving && <SavePresetModal template={template} file={file} name={preset?.name ?? ""} onClose={() => setSaving(false)} />}
    </>
  );
}

/** Keeps the focused field visible when the plan below grows. */
function useFocusInView() {
  const area = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = area.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      const focused = document.activeElement;
      if (focused !== null && element.contains(focused)) focused.scrollIntoView({ block: "nearest" });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return area;
}

function hintOf(invalid: boolean, complete: boolean, problems: FormProblems | null): string | null {
  if (invalid || (problems !== null && Object.keys(problems.fields).length > 0)) return i18next.t("Please correct the marked fields.");
  return complete ? null : i18next.t("Complete the required fields to see the estimated start.");
}

/** The field problems of an API error; null for other errors. */
function problemsOf(template: Template, error: unknown): FormProblems | null {
  if (!(error instanceof ApiProblem) || error.problems.length === 0) return null;
  return mapProblems(error.problems, template);
}

function useLaunch(onClose: () => void) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const remember = useRememberLaunch();
  // One idempotency key per content: a retry after a lost response returns the created job.
  const key = useRef({ content: "", key: "" });
  return useMutation({
    mutationFn: (file: JobFile) => {
      const content = JSON.stringify(file);
      if (key.current.content !== content) key.current = { content, key: uuid() };
      return launch(file, key.current.key);
    },
    onSuccess: async (job, file) => {
      key.current = { content: "", key: "" };
      remember(job.name, file);
      // Displayed immediately and fetched again: events may have arrived before this response.
      cache.setQueryData(keys.job(job.id), job, { updatedAt: 0 });
      void cache.invalidateQueries({ queryKey: keys.recent });
      void cache.invalidateQueries({ queryKey: keys.lists });
      if (job.type === "session") {
        cache.setQueryData<JobPage>(
          keys.sessions,
          (old) => old && { ...old, items: [job, ...old.items.filter((entry) => entry.id !== job.id)] },
        );
        void cache.invalidateQueries({ queryKey: keys.sessions });
        onClose();
      } else {
        await navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
      }
    },
  });
}
