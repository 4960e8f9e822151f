/** Words and figures for the comparison of two runs. */
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
  use: msg("Use"),
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
  memory_bytes: msg("Memory"),
  gpu: msg("GPUs"),
  root: msg("Folder"),
  remote: msg("Remote"),
  branch: msg("Branch"),
  commit: msg("Commit"),
  dirty: msg("Uncommitted changes"),
  diff_bytes: msg("Size of the diff"),
  diff: msg("Diff"),
  untracked: msg("Untracked"),
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
  waited_s: msg("Waited"),
  duration_s: msg("Ran for"),
  memory_max_bytes: msg("Memory, at most"),
  cpu_mean: msg("CPUs in use, on average"),
  cpu_max: msg("CPUs in use, at most"),
  gpu_mean: msg("GPU use, on average"),
  gpu_memory_max_bytes: msg("GPU memory, at most"),
};

/** Sections whose rows are named by the user's own words. */
const OWN_WORDS = new Set(["parameters", "metrics"]);

export function titleOf(section: Section): string {
  return i18next.t(SECTIONS[section.key] ?? section.key);
}

export function nameOf(section: Section, row: Row): string {
  const known = OWN_WORDS.has(section.key) ? undefined : FIELDS[row.field];
  return known === undefined ? row.field : i18next.t(known);
}

/** A value as it is read; null: there is none. */
export function textOf(value: Row["a"], unit: Row["unit"]): string | null {
  if (value === null) return null;
  if (typeof value === "boolean") return value ? i18next.t("yes") : i18next.t("no");
  if (typeof value === "string") return value;
  if (unit === "bytes") return formatBytes(value);
  if (unit === "seconds") return formatSpan(value);
  if (unit === "share") return `${Math.round(value * 100)} %`;
  return formatCell(value);
}

/** The sections with the rows that are to be shown; none that is left empty. */
export function shownSections(comparison: Comparison, onlyDifferences: boolean): Section[] {
  return comparison.sections
    .map((section) => ({ ...section, rows: section.rows.filter((row) => !onlyDifferences || !row.same) }))
    .filter((section) => section.rows.length > 0 || (!onlyDifferences && section.note !== null));
}
