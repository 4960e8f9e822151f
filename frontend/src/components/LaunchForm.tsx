import { Alert, Button, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleAlert, Rocket } from "lucide-react";
import { type SubmitEvent, useMemo, useRef, useState } from "react";
import { launch } from "@/api/actions";
import { ApiProblem } from "@/api/problem";
import { keys, partitionsQuery, planQuery } from "@/api/queries";
import type { ClusterNode, JobFile, JobPage, Me, Template } from "@/api/types";
import { ParameterField } from "@/components/ParameterField";
import { PlanView } from "@/components/PlanView";
import { ResourceFields } from "@/components/ResourceFields";
import { SlurmFields } from "@/components/SlurmFields";
import {
  boundsOf,
  type FormProblems,
  initialValues,
  type LaunchValues,
  localProblems,
  mapProblems,
  toJobFile,
} from "@/lib/launch";
import { uuid } from "@/lib/id";
import { messageOf } from "@/api/problem";
import classes from "./LaunchDrawer.module.css";

interface Props {
  template: Template;
  me: Me;
  nodes: readonly ClusterNode[];
  onClose: () => void;
}

const PLAN_DELAY_MS = 300;

export function LaunchForm({ template, me, nodes, onClose }: Props) {
  const [values, setValues] = useState(() => initialValues(template, me.user.default_project, nodes));
  const [pressed, setPressed] = useState(false);
  const bounds = useMemo(() => boundsOf(template, nodes), [template, nodes]);
  const file = useMemo(() => toJobFile(template, values), [template, values]);
  const local = useMemo(() => localProblems(template, values), [template, values]);
  const complete = Object.keys(local).length === 0;

  const [planned] = useDebouncedValue(file, PLAN_DELAY_MS);
  const plan = useQuery({ ...planQuery(planned), enabled: complete && planned === file });
  const start = useLaunch(onClose);
  const partitions = useQuery(partitionsQuery).data;

  const problems = problemsOf(template, start.error) ?? (complete ? problemsOf(template, plan.error) : null);
  const errors = { ...problems?.fields, ...(pressed ? local : {}) };
  const set = (change: Partial<LaunchValues>) => {
    start.reset();
    setValues((old) => ({ ...old, ...change }));
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    setPressed(true);
    if (complete && !start.isPending) start.mutate(file);
  };
  const outside = start.error !== null && problemsOf(template, start.error) === null ? start.error : null;

  return (
    <form className={classes.content} onSubmit={submit} noValidate aria-label={`Launch ${template.title}`}>
      <div className={classes.scroll}>
        <div className={classes.form}>
          {template.parameters.length > 0 && (
            <fieldset className={classes.group}>
              <legend className={classes.legend}>Settings</legend>
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
            <legend className={classes.legend}>Resources</legend>
            <ResourceFields values={values} bounds={bounds} errors={errors} onChange={set} />
          </fieldset>
          <fieldset className={classes.group}>
            <legend className={classes.legend}>More</legend>
            <TextInput
              label="Name"
              placeholder={template.title}
              value={values.name}
              error={errors.name}
              maxLength={200}
              onChange={(event) => set({ name: event.currentTarget.value })}
              data-testid="launch-name"
            />
            {me.projects.length > 1 && (
              <Select
                label="Project"
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
        </div>
      </div>
      <div className={classes.foot}>
        {outside !== null && (
          <Alert color="red" icon={<CircleAlert size={18} />} mb="sm" role="alert" title="Not launched">
            {messageOf(outside)}
          </Alert>
        )}
        {problems?.general.map((text) => (
          <Alert key={text} color="red" icon={<CircleAlert size={18} />} mb="sm" role="alert">
            {text}
          </Alert>
        ))}
        <PlanView
          plan={complete ? plan.data : undefined}
          error={problems === null && complete ? plan.error : null}
          hint={hintOf(complete, problems)}
          fresh={planned === file && !plan.isFetching}
        />
        <div className={classes.buttons}>
          <Button variant="default" onClick={onClose}>
            Close
          </Button>
          <Button
            type="submit"
            leftSection={<Rocket size={17} />}
            loading={start.isPending}
            disabled={plan.data?.fits === false && planned === file}
            data-autofocus
            data-testid="launch-submit"
          >
            Launch
          </Button>
        </div>
      </div>
    </form>
  );
}

function hintOf(complete: boolean, problems: FormProblems | null): string | null {
  if (!complete) return "Fill in what is still empty to see when it would start.";
  if (problems !== null && Object.keys(problems.fields).length > 0) return "Please correct the marked fields.";
  return null;
}

/** What the API said about fields; null when its answer was about something else, or there was none. */
function problemsOf(template: Template, error: unknown): FormProblems | null {
  if (!(error instanceof ApiProblem) || error.problems.length === 0) return null;
  return mapProblems(error.problems, template);
}

function useLaunch(onClose: () => void) {
  const cache = useQueryClient();
  const navigate = useNavigate();
  // One key for one content: pressing again after a lost answer finds the job that was made.
  const key = useRef({ content: "", key: "" });
  return useMutation({
    mutationFn: (file: JobFile) => {
      const content = JSON.stringify(file);
      if (key.current.content !== content) key.current = { content, key: uuid() };
      return launch(file, key.current.key);
    },
    onSuccess: async (job) => {
      key.current = { content: "", key: "" };
      cache.setQueryData(keys.job(job.id), job);
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
