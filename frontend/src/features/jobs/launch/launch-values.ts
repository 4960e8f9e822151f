/** Values of the launch form from a job file: a preset, or the template's last launch. */
import type { JobFile, Parameter, Scalar, Template } from "@/api/types";
import { parseDuration } from "@/lib/time";
import { parseMemory } from "@/lib/units";
import { gpuOf } from "./describe-file";
import { type Bounds, DEFAULT_CONTAINER, type EnvironmentValues, type LaunchValues, NO_ENVIRONMENT, NO_PLACEMENT, type PlacementValues } from "./launch";

/**
 * The values of `file`; the template's defaults, in `start`, where it has none or the template no longer accepts it. Amounts are
 * limited to the bounds, and a project that the user has left is not taken.
 */
export function valuesOf(file: JobFile, template: Template, start: LaunchValues, bounds: Bounds, projects: readonly string[]): LaunchValues {
  const { nodes, cpu, memory, gpu } = file.resources ?? {};
  const slurm = (file.slurm ?? {}) as { partition?: string | null; qos?: string | null; constraint?: string | null };
  const gpus = gpuOf(gpu);
  const typed = gpus.type && bounds.gpuTypes.includes(gpus.type) ? gpus.type : null;
  return {
    ...start,
    name: file.name && file.name !== template.title ? file.name : "",
    project: file.project && projects.includes(file.project) ? file.project : start.project,
    parameters: {
      ...start.parameters,
      ...Object.fromEntries(
        template.parameters.flatMap((parameter) => {
          const value = file.parameters?.[parameter.name];
          return value !== undefined && fits(parameter, value) ? [[parameter.name, value]] : [];
        }),
      ),
    },
    nodes: within(nodes, bounds.nodes, start.nodes),
    cpu: within(cpu, bounds.cpu, start.cpu),
    memoryBytes: within(typeof memory === "string" ? parseMemory(memory) : memory, bounds.memory, start.memoryBytes),
    gpuCount: unset(gpu) ? start.gpuCount : Math.min(gpus.count, bounds.gpuMax),
    gpuType: unset(gpu) ? start.gpuType : typed,
    durationS: within(seconds(file.max_duration), { min: 1, max: bounds.durationMax ?? Infinity }, start.durationS),
    slurm: { partition: slurm.partition ?? null, qos: slurm.qos ?? null, constraint: slurm.constraint ?? "" },
    placement: placementOf(file),
    image: file.image ?? null,
    container: { ...DEFAULT_CONTAINER, ...file.container },
    environment: environmentOf(file),
    datasets: file.datasets ?? [],
  };
}

function seconds(duration: JobFile["max_duration"]): number | null | undefined {
  return typeof duration === "string" ? parseDuration(duration) : duration;
}

function unset(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

function within<T>(value: number | null | undefined, { min, max }: { min: number; max: number }, otherwise: T): T | number {
  return unset(value) ? otherwise : Math.min(Math.max(value, min), max);
}

function fits(parameter: Parameter, value: Scalar): boolean {
  switch (parameter.type) {
    case "boolean":
      return typeof value === "boolean";
    case "integer":
    case "number":
      return typeof value === "number";
    case "choice":
      return parameter.choices.includes(String(value));
    default:
      return typeof value === "string";
  }
}

function environmentOf({ environment }: JobFile): EnvironmentValues {
  if (unset(environment)) return NO_ENVIRONMENT;
  const { modules, conda, venv, setup } = environment;
  return {
    modules: modules ?? [],
    kind: conda ? "conda" : venv ? "venv" : "none",
    python: conda ?? venv ?? "",
    setup: (setup ?? []).join("\n"),
  };
}

function placementOf({ placement }: JobFile): PlacementValues {
  if (unset(placement)) return NO_PLACEMENT;
  const { compact, nodes, exclude } = placement;
  const listed = (names: string | string[] | undefined) => (Array.isArray(names) ? names.join(",") : (names ?? ""));
  return { compact: compact === "prefer" || compact === "require" ? compact : null, nodes: listed(nodes), exclude: listed(exclude) };
}
