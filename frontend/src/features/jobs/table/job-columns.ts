/** The columns of the jobs table. A new one is a new entry here and its cell in `cells.tsx`. */
import type { Column } from "@/components/table";
import { msg } from "@/i18n/msg";
import type { JobSort } from "@/lib/job-filters";

export interface JobColumn extends Pick<Column<never, JobSort>, "width" | "sort" | "descendingFirst" | "align" | "place"> {
  name: string;
  label: string;
}

export const COLUMNS = [
  { name: "name", label: msg("Name"), width: "minmax(180px, 3fr)", sort: "name", place: "title" },
  { name: "state", label: msg("State"), width: "172px", sort: "state", place: "status" },
  { name: "owner", label: msg("Owner"), width: "minmax(80px, 1fr)", sort: "owner" },
  { name: "project", label: msg("Project"), width: "minmax(80px, 1fr)", sort: "project" },
  { name: "template", label: msg("Template"), width: "minmax(90px, 1fr)" },
  { name: "image", label: msg("Image"), width: "minmax(90px, 1.2fr)" },
  { name: "resources", label: msg("Resources"), width: "minmax(190px, 3fr)", place: "note" },
  { name: "gpus", label: msg("GPUs"), width: "64px", sort: "gpus", descendingFirst: true, align: "right" },
  { name: "nodes", label: msg("Nodes"), width: "minmax(90px, 1.2fr)" },
  // As squeue's NODELIST(REASON).
  { name: "placement", label: msg("Nodes (reason)"), width: "minmax(120px, 2fr)" },
  { name: "partition", label: msg("Partition"), width: "minmax(80px, 1fr)" },
  { name: "created", label: msg("Created"), width: "92px", sort: "created", descendingFirst: true, place: "aside" },
  { name: "started", label: msg("Started"), width: "92px", sort: "started", descendingFirst: true },
  { name: "ended", label: msg("Ended"), width: "92px", sort: "ended", descendingFirst: true },
  { name: "duration", label: msg("Run time"), width: "104px", sort: "duration", descendingFirst: true, align: "right" },
  { name: "folder", label: msg("Folder size"), width: "104px", align: "right" },
  { name: "message", label: msg("Message"), width: "minmax(200px, 3fr)" },
  { name: "id", label: msg("ID"), width: "84px" },
  { name: "scheduler_id", label: msg("Scheduler ID"), width: "110px" },
] as const satisfies readonly JobColumn[];

export type ColumnName = (typeof COLUMNS)[number]["name"];

export const DEFAULT_COLUMNS: readonly ColumnName[] = ["name", "state", "project", "resources", "created", "duration"];

/** The columns by name, `name` always first; unknown names are ignored. */
export function columnsOf(names: readonly string[], everyone: boolean): JobColumn[] {
  const selected = names.length > 0 ? names : everyone ? ["name", "state", "owner", ...DEFAULT_COLUMNS.slice(2)] : DEFAULT_COLUMNS;
  const columns = selected.flatMap((name) => COLUMNS.filter((column) => column.name === name && name !== "name"));
  return [COLUMNS[0], ...new Map(columns.map((column) => [column.name, column])).values()];
}
