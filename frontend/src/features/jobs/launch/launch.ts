/** The launch form: its values from a template, the job file from its values, problems back to its fields. */
import i18next from "i18next";
import type { ClusterNode, FieldProblem, JobFile, Parameter, Scalar, Template } from "@/api/types";
import { BARE } from "@/lib/runtimes";
import { durationWords } from "@/lib/time";
import { memoryText } from "@/lib/units";

export interface LaunchValues {
  name: string;
  project: string;
  /** Values of the inputs: numbers can be empty text while they are edited. */
  parameters: Record<string, Scalar>;
  nodes: number;
  cpu: number;
  /** Null: not requested, the scheduler decides. */
  memoryBytes: number | null;
  gpuCount: number;
  gpuType: string | null;
  /** Null: not requested, the scheduler decides. */
  durationS: number | null;
  /** The text of the field where it is not a valid duration. */
  durationTyped: string | null;
  slurm: { partition: string | null; qos: string | null; constraint: string };
  placement: PlacementValues;
  /** `name:version` or `bare`; null: the template's image. */
  image: string | null;
  container: ContainerValues;
  environment: EnvironmentValues;
  /** `name:version` each. */
  datasets: string[];
}

export interface PlacementValues {
  /** Whether the job waits for the fewest leaf switches; for jobs on several nodes. */
  compact: "prefer" | "require" | null;
  /** Host lists. */
  nodes: string;
  exclude: string;
}

export interface ContainerValues {
  /** Null: selected by the platform from the image's runtimes. */
  runtime: string | null;
  writable: boolean;
  network: boolean;
}

export interface EnvironmentValues {
  modules: string[];
  /** The kind of environment that `python` names. */
  kind: "none" | "conda" | "venv";
  python: string;
  /** Lines of bash. */
  setup: string;
}

export const DEFAULT_CONTAINER: ContainerValues = { runtime: null, writable: false, network: true };
export const NO_PLACEMENT: PlacementValues = { compact: null, nodes: "", exclude: "" };
export const NO_ENVIRONMENT: EnvironmentValues = { modules: [], kind: "none", python: "", setup: "" };

/** Initial values of the form, limited to the cluster's largest node. */
export function initialValues(template: Template, project: string, nodes: readonly ClusterNode[]): LaunchValues {
  const { resources } = template;
  const bounds = boundsOf(template, nodes);
  return {
    name: "",
    project,
    parameters: Object.fromEntries(
      template.parameters.map((parameter) => [parameter.name, parameter.default ?? emptyValue(parameter)]),
    ),
    nodes: resources.nodes.default,
    cpu: Math.min(resources.cpu.default, bounds.cpu.max),
    memoryBytes: resources.memory.default === null ? null : Math.min(resources.memory.default, bounds.memory.max),
    gpuCount: Math.min(resources.gpu.default.count, bounds.gpuMax),
    gpuType: resources.gpu.default.type,
    durationS: resources.max_duration.default,
    durationTyped: null,
    slurm: { partition: null, qos: null, constraint: "" },
    placement: NO_PLACEMENT,
    image: null,
    container: DEFAULT_CONTAINER,
    environment: NO_ENVIRONMENT,
    datasets: [],
  };
}

/** Whether the job would run without a container. */
export function isBare(template: Template, values: Pick<LaunchValues, "image">): boolean {
  return (values.image ?? template.image) === BARE;
}

function emptyValue(parameter: Parameter): Scalar {
  return parameter.type === "boolean" ? false : "";
}

export interface Bounds {
  nodes: { min: number; max: number };
  cpu: { min: number; max: number };
  memory: { min: number; max: number };
  gpuMax: number;
  gpuTypes: string[];
  durationMax: number | null;
  /** Whether the time limit may be left to the scheduler. */
  durationOptional: boolean;
}

/** Bounds of the inputs: the template's, limited to the largest node. */
export function boundsOf(template: Template, nodes: readonly ClusterNode[]): Bounds {
  const { resources } = template;
  const largest = (pick: (node: ClusterNode) => number, none: number) =>
    nodes.length === 0 ? none : Math.max(...nodes.map(pick));
  const upTo = (limit: number | null | undefined, available: number, min: number) =>
    Math.max(min, Math.min(limit ?? Infinity, available));
  const gpuTotal = largest((node) => node.gpus.reduce((sum, gpu) => sum + gpu.total, 0), 0);
  return {
    nodes: {
      min: resources.nodes.min,
      max: upTo(resources.nodes.max, Math.max(nodes.length, 1), resources.nodes.min),
    },
    cpu: { min: Math.max(1, resources.cpu.min), max: upTo(resources.cpu.max, largest((n) => n.cpu_total, 64), 1) },
    memory: {
      min: resources.memory.min,
      max: upTo(resources.memory.max, largest((n) => n.memory_total_bytes, 64 * 1024 ** 3), resources.memory.min),
    },
    gpuMax: Math.min(resources.gpu.max ?? Infinity, gpuTotal),
    gpuTypes: [
      ...new Set(nodes.flatMap((node) => node.gpus.flatMap((gpu) => (gpu.type === null ? [] : [gpu.type])))),
    ].sort(),
    durationMax: resources.max_duration.max ?? null,
    durationOptional: (resources.max_duration.default ?? null) === null,
  };
}

/** The body of POST /jobs and /jobs:plan. Empty fields are omitted, so that the platform's defaults apply. */
export function toJobFile(template: Template, values: LaunchValues): JobFile {
  const parameters: Record<string, Scalar> = {};
  for (const parameter of template.parameters) {
    const value = values.parameters[parameter.name];
    if (value === undefined) continue;
    if (value === "" && (parameter.default === null || isNumeric(parameter))) {
      continue;
    }
    parameters[parameter.name] = value;
  }
  const name = values.name.trim();
  return {
    type: template.type,
    template: template.name,
    name: name === "" ? template.title : name,
    ...(values.project === "" ? {} : { project: values.project }),
    parameters,
    resources: {
      nodes: values.nodes,
      cpu: values.cpu,
      ...(values.memoryBytes === null ? {} : { memory: memoryText(values.memoryBytes) }),
      gpu:
        values.gpuCount > 0 && values.gpuType !== null
          ? `${values.gpuType}:${values.gpuCount}`
          : values.gpuCount,
    },
    ...(values.durationS === null ? {} : { max_duration: durationWords(values.durationS) }),
    ...slurmPart(values.slurm),
    ...placementPart(values),
    ...(values.image === null ? {} : { image: values.image }),
    ...(isBare(template, values) ? environmentPart(values.environment) : containerPart(values.container)),
    ...(values.datasets.length === 0 ? {} : { datasets: values.datasets }),
  };
}

/** The container options, where they differ from the defaults. */
function containerPart({ runtime, writable, network }: ContainerValues): Pick<JobFile, "container"> {
  if (runtime === null && !writable && network) return {};
  return { container: { runtime, writable, network } };
}

/** The environment of a job without an image; only fields with a value. */
function environmentPart({ modules, kind, python, setup }: EnvironmentValues): Pick<JobFile, "environment"> {
  const path = python.trim();
  const lines = setup.split("\n").filter((line) => line.trim() !== "");
  const pythonPart = kind !== "none" && path !== "" ? { [kind]: path } : {};
  if (modules.length === 0 && lines.length === 0 && Object.keys(pythonPart).length === 0) return {};
  return {
    environment: {
      ...(modules.length > 0 && { modules }),
      ...pythonPart,
      ...(lines.length > 0 && { setup: lines }),
    },
  };
}

/** Empty without any value: other schedulers reject the section. */
function slurmPart({ partition, qos, constraint }: LaunchValues["slurm"]): Pick<JobFile, "slurm"> {
  const features = constraint.trim();
  if (partition === null && qos === null && features === "") return {};
  return {
    slurm: { ...(partition && { partition }), ...(qos && { qos }), ...(features && { constraint: features }) } as JobFile["slurm"],
  };
}

/** The placement, where it differs from the defaults. */
function placementPart({ placement, nodes: count }: LaunchValues): Pick<JobFile, "placement"> {
  const [nodes, exclude] = [placement.nodes.trim(), placement.exclude.trim()];
  const fields = { ...(placement.compact !== null && count > 1 && { compact: placement.compact }), ...(nodes && { nodes }), ...(exclude && { exclude }) };
  return Object.keys(fields).length === 0 ? {} : { placement: fields as JobFile["placement"] };
}

function isNumeric(parameter: Parameter): boolean {
  return parameter.type === "integer" || parameter.type === "number";
}

export interface FormProblems {
  /** By the form's field: "cpu", "memory", "gpu", "duration", "image", "datasets", "parameters.lr" and so on. */
  fields: Record<string, string>;
  /** Problems without a visible field. */
  general: string[];
}

const FIELD_NAMES: Record<string, string> = {
  "resources.cpu": "cpu",
  "resources.memory": "memory",
  "resources.gpu": "gpu",
  "resources.nodes": "nodes",
  resources: "cpu",
  max_duration: "duration",
  name: "name",
  project: "project",
  "slurm.partition": "partition",
  "slurm.qos": "qos",
  "slurm.constraint": "constraint",
  "placement.compact": "compact",
  "placement.nodes": "onNodes",
  "placement.exclude": "notOnNodes",
  image: "image",
  "container.runtime": "runtime",
  container: "image",
  datasets: "datasets",
  "environment.modules": "modules",
  "environment.conda": "python",
  "environment.venv": "python",
  "environment.setup": "setup",
  environment: "modules",
};

/** Assign the API's problems to the form's fields, with the allowed values where the API names them. */
export function mapProblems(problems: readonly FieldProblem[], template: Template): FormProblems {
  const result: FormProblems = { fields: {}, general: [] };
  const parameters = new Set(template.parameters.map((parameter) => parameter.name));
  for (const problem of problems) {
    if (problem.field === "account") {
      // A problem of the user, not of the form: a sentence that begins with a user name.
      result.general.push(problem.message);
      continue;
    }
    // Problems from FastAPI have a prefix for the request part.
    const path = problem.field.replace(/^body\./, "");
    const message = sentence(problem.message);
    const text = problem.allowed ? i18next.t("{{said}} Allowed: {{allowed}}.", { said: message, allowed: problem.allowed }) : message;
    const parameter = /^parameters\.([a-z0-9_]+)/.exec(path)?.[1];
    const field =
      parameter !== undefined && parameters.has(parameter)
        ? `parameters.${parameter}`
        : (sourceParameter(template, path) ?? fieldOf(path));
    if (field === undefined) result.general.push(path === "" ? text : `${path}: ${text}`);
    else result.fields[field] = result.fields[field] ? `${result.fields[field]} ${text}` : text;
  }
  return result;
}

/** The template's parameter that sets this field of the job. */
function sourceParameter({ distributed, workdir_from: workdir }: Template, path: string): string | undefined {
  const { ranks_per_node_from: ranks, backend_from: backend } = distributed ?? {};
  const sources: Partial<Record<string, string | null>> = { "distributed.backend": backend, "distributed.ranks_per_node": ranks, workdir };
  const name = sources[path];
  return name ? `parameters.${name}` : undefined;
}

/** The form's field for a path such as `datasets.0` or `environment.setup.2`. */
function fieldOf(path: string): string | undefined {
  const parts = path.split(".");
  for (const length of [parts.length, 2, ...(FORM_SECTIONS.has(parts[0] ?? "") ? [1] : [])]) {
    const field = FIELD_NAMES[parts.slice(0, length).join(".")];
    if (field !== undefined) return field;
  }
  return undefined;
}

/** Sections of a job file whose problems all belong to a field of the form. */
const FORM_SECTIONS = new Set(["image", "container", "environment", "datasets"]);

function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === "") return i18next.t("Invalid value.");
  const upper = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(upper) ? upper : `${upper}.`;
}

/** Problems that are detected in the browser, without a request. */
export function localProblems(template: Template, values: LaunchValues): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const parameter of template.parameters) {
    const value = values.parameters[parameter.name];
    const missing = value === undefined || value === "";
    if (missing && parameter.default === null) {
      problems[`parameters.${parameter.name}`] = i18next.t("This field is required.");
    }
  }
  if (values.durationTyped !== null) problems.duration = i18next.t("Enter a duration, such as 30m, 4h or 1d12h.");
  return problems;
}

/** More buttons than this do not fit beside the field. */
const MAX_PICKS = 6;

/** Common CPU counts within the bounds: powers of two and the maximum. */
export function cpuChoices({ min, max }: { min: number; max: number }): number[] {
  const powers = [1, 2, 4, 8, 16, 32, 64, 128].filter((count) => count >= min && count <= max);
  const choices = powers.includes(max) ? powers : [...powers, max];
  return choices.length <= MAX_PICKS ? choices : [...choices.slice(0, MAX_PICKS - 1), max];
}

/** Zero, powers of two, and the maximum. */
export function gpuChoices(max: number): number[] {
  const powers = [1, 2, 4, 8, 16].filter((count) => count <= max);
  return [0, ...powers, ...(max > 0 && !powers.includes(max) ? [max] : [])];
}

const DURATIONS_S = [3_600, 4 * 3_600, 8 * 3_600, 24 * 3_600, 3 * 24 * 3_600];

/** Common time limits within the template's maximum. */
export function durationChoices(max: number | null, current: number | null): number[] {
  const limit = max ?? Infinity;
  const short = current !== null && current < 3_600 ? [current] : [];
  return [...short, ...DURATIONS_S.filter((seconds) => seconds <= limit)].slice(0, 4);
}
