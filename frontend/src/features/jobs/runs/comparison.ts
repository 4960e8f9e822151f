/** Labels and values for the comparison of two runs. */
import i18next from "i18next";
import type { Comparison } from "@/api/runs";
import type { Job, JobState } from "@/api/types";
import { formatSpan } from "@/features/jobs/profile";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import { lookOf } from "@/lib/states";
import { formatCell } from "@/lib/sweep";
import { formatBytes, withUnit } from "@/lib/units";

type PairSection = Comparison["sections"][number];
type PairRow = PairSection["rows"][number];
export type Run = Comparison["a"];
export type Value = PairRow["a"];

/** A field with its value in each run. */
export interface Row {
  field: string;
  unit: PairRow["unit"];
  values: Value[];
  /** Which runs differ from the first; of two, both. */
  different: boolean[];
  equal: boolean;
}

export interface Section {
  key: string;
  rows: Row[];
  equal_omitted: number;
  /** What is unknown of two runs, with their letters. */
  notes: { runs: string; text: string }[];
}

export interface RunComparison {
  runs: Run[];
  sections: Section[];
  /** Number of fields that differ between any two runs. */
  differences: number;
}

/** The name of a run in the page: A, B, … */
export function letterOf(index: number): string {
  return "ABCDEFGHIJKLMNOPQRSTUVWXYZ".charAt(index);
}

/** One comparison of the first run with all others, from those with each. A field that one of them omits is equal in it. */
export function mergeComparisons(pairs: readonly [Comparison, ...Comparison[]]): RunComparison {
  const first = pairs[0];
  const keys = [...new Set([...Object.keys(SECTIONS), ...pairs.flatMap((pair) => pair.sections.map((section) => section.key))])].filter((key) =>
    pairs.some((pair) => pair.sections.some((section) => section.key === key)),
  );
  const sections = keys.map((key) => mergeSections(key, pairs.map((pair) => pair.sections.find((section) => section.key === key))));
  return {
    runs: [first.a, ...pairs.map((pair) => pair.b)],
    sections,
    differences: sections.reduce((sum, section) => sum + section.rows.filter((row) => !row.equal).length, 0),
  };
}

function mergeSections(key: string, sections: readonly (PairSection | undefined)[]): Section {
  const rows = sections.map((section) => new Map(section?.rows.map((row) => [row.field, row])));
  const fields = [...new Set(rows.flatMap((each) => [...each.keys()]))];
  const merged = fields.map((field) => {
    const pairs = rows.map((each) => each.get(field));
    const known = pairs.find((pair) => pair !== undefined);
    const reference = known?.a ?? null;
    return {
      field,
      unit: known?.unit ?? null,
      // With a note, an omitted field is unknown rather than equal.
      values: [reference, ...pairs.map((pair, index) => (pair !== undefined ? pair.b : (sections[index]?.note ?? null) === null ? reference : null))],
      different: [pairs.length === 1 && pairs[0]?.equal === false, ...pairs.map((pair) => pair?.equal === false)],
      equal: pairs.every((pair) => pair?.equal ?? true),
    };
  });
  const notes = sections.flatMap((section, index) => (section === undefined || section.note === null ? [] : [{ runs: `${letterOf(0)}, ${letterOf(index + 1)}`, text: section.note }]));
  const omitted = sections[0]?.equal_omitted ?? 0;
  const listedLater = fields.filter((field) => rows[0]?.has(field) !== true).length;
  return { key, rows: merged, equal_omitted: Math.max(0, omitted - listedLater), notes };
}

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
  args: msg("Arguments"),
  workdir: msg("Folder"),
  array: msg("Array"),
  max_duration_s: msg("Time limit"),
  nodes: msg("Nodes"),
  cpu: msg("CPUs"),
  tasks_per_node: msg("Tasks per node"),
  cpus_per_task: msg("CPUs per task"),
  memory_bytes: msg("Memory"),
  gpu: msg("GPUs"),
  sbatch_options: msg("Options of sbatch"),
  root: msg("Folder"),
  remote: msg("Remote"),
  branch: msg("Branch"),
  commit: msg("Commit"),
  dirty: msg("Uncommitted changes"),
  diff_bytes: msg("Diff size"),
  diff: msg("Diff"),
  untracked: msg("Untracked"),
  tree: msg("Working tree"),
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

const REASONS: Record<NonNullable<Job["reason"]>, string> = {
  completed: msg("Completed"),
  failed: msg("Failed"),
  cancelled: msg("Cancelled"),
  timed_out: msg("Time limit"),
  out_of_memory: msg("Out of memory"),
  node_failed: msg("Node failed"),
  preempted: msg("Preempted"),
  lost: msg("Lost"),
  rejected: msg("Rejected by the scheduler"),
  dependency_failed: msg("Dependency failed"),
  duplicate: msg("Started twice"),
  idle: msg("No activity"),
  goal_reached: msg("Goal reached"),
  start_failed: msg("Failed to start"),
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

/** The value of a row in one run as text; null where there is none. */
export function textOf(section: Pick<Section, "key">, { field, unit }: Pick<Row, "field" | "unit">, value: Value): string | null {
  if (value === null) return null;
  if (section.key === "outcome" && field === "state") return lookOf(value as JobState).label;
  if (section.key === "outcome" && field === "reason") return i18next.t(known(REASONS, String(value), String(value)));
  if (typeof value === "boolean") return value ? i18next.t("yes") : i18next.t("no");
  if (typeof value === "string") return value;
  if (unit === "bytes") return formatBytes(value);
  if (unit === "seconds") return formatSpan(value);
  if (unit === "share") return withUnit(Math.round(value * 100), "%");
  return formatCell(value);
}

/** The sections with their visible rows, without empty sections. */
export function shownSections(comparison: RunComparison, onlyDifferences: boolean): Section[] {
  return comparison.sections
    .map((section) => ({ ...section, rows: section.rows.filter((row) => !onlyDifferences || !row.equal) }))
    .filter((section) => section.rows.length > 0 || (!onlyDifferences && section.notes.length > 0));
}
