/** The columns of the jobs table. A new one is a new entry here and its cell in `components/jobs/cells.tsx`. */
import { msg } from "@/i18n/msg";
import type { JobSort } from "@/lib/job-filters";

export interface Column {
  name: string;
  label: string;
  /** Width as a track of a CSS grid. */
  track: string;
  sort?: JobSort;
  number?: boolean;
}

export const COLUMNS = [
  { name: "name", label: msg("Name"), track: "minmax(180px, 3fr)", sort: "name" },
  { name: "state", label: msg("State"), track: "172px", sort: "state" },
  { name: "owner", label: msg("Owner"), track: "minmax(80px, 1fr)", sort: "owner" },
  { name: "project", label: msg("Project"), track: "minmax(80px, 1fr)", sort: "project" },
  { name: "template", label: msg("Template"), track: "minmax(90px, 1fr)" },
  { name: "image", label: msg("Image"), track: "minmax(90px, 1.2fr)" },
  { name: "resources", label: msg("Resources"), track: "minmax(190px, 3fr)" },
  { name: "gpus", label: msg("GPUs"), track: "64px", sort: "gpus", number: true },
  { name: "nodes", label: msg("Nodes"), track: "minmax(90px, 1.2fr)" },
  // As squeue's NODELIST(REASON).
  { name: "placement", label: msg("Nodes (reason)"), track: "minmax(120px, 2fr)" },
  { name: "partition", label: msg("Partition"), track: "minmax(80px, 1fr)" },
  { name: "created", label: msg("Created"), track: "92px", sort: "created" },
  { name: "started", label: msg("Started"), track: "92px", sort: "started" },
  { name: "ended", label: msg("Ended"), track: "92px", sort: "ended" },
  { name: "duration", label: msg("Run time"), track: "104px", sort: "duration", number: true },
  { name: "folder", label: msg("Folder size"), track: "104px", number: true },
  { name: "message", label: msg("Message"), track: "minmax(200px, 3fr)" },
  { name: "id", label: msg("ID"), track: "84px" },
  { name: "scheduler_id", label: msg("Scheduler ID"), track: "110px" },
] as const satisfies readonly Column[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

export const DEFAULT_COLUMNS: readonly ColumnName[] = ["name", "state", "project", "resources", "created", "duration"];

/** The columns by name, `name` always first; unknown names are ignored. */
export function columnsOf(names: readonly string[], everyone: boolean): Column[] {
  const selected = names.length > 0 ? names : everyone ? ["name", "state", "owner", ...DEFAULT_COLUMNS.slice(2)] : DEFAULT_COLUMNS;
  const columns = selected.flatMap((name) => COLUMNS.filter((column) => column.name === name && name !== "name"));
  return [COLUMNS[0], ...new Map(columns.map((column) => [column.name, column])).values()];
}

/** The minimum width of a track in pixels. */
export function minWidthOf(track: string): number {
  return Number(/(\d+)px/.exec(track)?.[1] ?? 80);
}
