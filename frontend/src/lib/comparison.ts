/** Labels and values for the comparison of two runs. */
import i18next from "i18next";
import type { Comparison } from "@/api/runs";
import { msg } from "@/i18n/msg";
import { formatCell } from "@/lib/sweep";
import { formatSpan } from "@/lib/profile";
import { formatBytes } from "@/lib/units";

export type Section = Comparison["sections"][number];
export type Row = Section["rows"][number];

const SECTIONS: Partial<Record<string, string>> = {
  job: msg("Job file"),
  parameters: msg("Parameters"),
  resources: msg("Resources"),
  code: msg("Code"),
  packages: msg("Software"),
  data: msg("Image and data"),
  node: msg("Node"),
  outcome: msg("Outcome"),
  use: msg("Resource usage"),
  metrics: msg("Metrics"),
};

const FIELDS: Partial<Record<string, string>> = {
  name: msg("Name"),
  project: msg("Project"),
  owner: msg("Owner"),
  type: msg("Type"),
  template: msg("Template"),
  commands: msg("Commands"),
  workdir: msg("Folder"),
  max_duration_s: msg("Time limit"),
  nodes: msg("Nodes"),
  cpu: msg("CPUs"),
  tasks_per_node: msg("Tasks per node"),
  cpus_per_task: msg("CPUs per task"),
  memory_bytes: msg("Memory"),
  gpu: msg("GPUs"),
  root: msg("Folder"),
  remote: msg("Remote"),
  branch: msg("Branch"),
  commit: msg("Commit"),
  dirty: msg("Uncommitted changes"),
  diff_bytes: msg("Diff size"),
  diff: msg("Diff"),
  untracked: msg("Untracked"),
  tree: msg("Tree"),
  environment: msg("Environment"),
  modules: msg("Modules"),
  image: msg("Image"),
  image_digest: msg("Digest"),
  partition: msg("Partition"),
  system: msg("System"),
  kernel: msg("Kernel"),
  processor: msg("Processor"),
  gpu_driver: msg("GPU driver"),
  state: msg("State"),
  reason: msg("Reason"),
  exit_code: msg("Exit code"),
  attempt: msg("Attempt"),
  waited_s: msg("Queue time"),
  duration_s: msg("Run time"),
  memory_max_bytes: msg("Peak memory"),
  cpu_mean: msg("Average CPU usage"),
  cpu_max: msg("Peak CPU usage"),
  gpu_mean: msg("Average GPU utilization"),
  gpu_memory_max_bytes: msg("Peak GPU memory"),
};

/** Sections whose rows have names given by users. */
const USER_NAMED = new Set(["parameters", "metrics"]);

export function titleOf(section: Section): string {
  return i18next.t(SECTIONS[section.key] ?? section.key);
}

export function nameOf(section: Section, row: Row): string {
  const label = USER_NAMED.has(section.key) ? undefined : FIELDS[row.field];
  return label === undefined ? row.field : i18next.t(label);
}

/** A value as text; null where there is none. */
export function textOf(value: Row["a"], unit: Row["unit"]): string | null {
  if (value === null) return null;
  if (typeof value === "boolean") return value ? i18next.t("yes") : i18next.t("no");
  if (typeof value === "string") return value;
  if (unit === "bytes") return formatBytes(value);
  if (unit === "seconds") return formatSpan(value);
  if (unit === "share") return `${Math.round(value * 100)} %`;
  return formatCell(value);
}

/** The sections with their visible rows, without empty sections. */
export function shownSections(comparison: Comparison, onlyDifferences: boolean): Section[] {
  return comparison.sections
    .map((section) => ({ ...section, rows: section.rows.filter((row) => !onlyDifferences || !row.equal) }))
    .filter((section) => section.rows.length > 0 || (!onlyDifferences && section.note !== null));
}
