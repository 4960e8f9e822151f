/** What `DataTable` and `VirtualTable` are described by. */
import type { ReactNode } from "react";

export interface Column<Row, Sort extends string = string> {
  header: string;
  cell: (row: Row) => ReactNode;
  /** Tells columns apart; the default is the header. */
  key?: string;
  /** Shown instead of the header. */
  heading?: ReactNode;
  /** Whether the header is for screen readers only. */
  headerHidden?: boolean;
  /** The name of the value on narrow screens; the default is the header, except in the first column. `null`: none. */
  label?: string | null;
  align?: "right";
  /** The width in a `VirtualTable`, as a track of a CSS grid. */
  width?: string;
  /** What the column sorts by. */
  sort?: Sort;
  /** Whether the first click sorts in descending order. */
  descendingFirst?: boolean;
  dim?: boolean;
  nowrap?: boolean;
  /** Not shown on narrow screens by a `DataTable`. */
  hideOnPhone?: boolean;
  /** Where a `VirtualTable` shows the cell on narrow screens, in two lines; the default is nowhere. */
  place?: "title" | "status" | "note" | "aside";
  /** Class of the cells. */
  className?: string | undefined;
}

export interface Sorting<Sort extends string> {
  by: Sort;
  descending: boolean;
  onSort: (by: Sort, descending: boolean) => void;
  /** Prefix of the buttons' test IDs. */
  testId?: string;
}

export interface Selection<Row> {
  /** Keys of the selected rows. */
  selected: ReadonlySet<string>;
  onSelect: (keys: readonly string[], selected: boolean) => void;
  /** Accessible name of the checkbox for all rows. */
  allLabel: string;
  /** Accessible name of a row's checkbox. */
  labelOf: (row: Row) => string;
  /** Test ID of the checkbox for all rows. */
  testId?: string;
}

/** The attributes of a row for tests. */
export type DataAttributes = Partial<Record<`data-${string}`, string>>;

/** The order after a click on the heading of a column: the current one turns round. */
export function nextDescending<Sort extends string>(column: Column<never, Sort>, sorting: Sorting<Sort>): boolean {
  return column.sort === sorting.by ? !sorting.descending : column.descendingFirst === true;
}

export function ariaSortOf<Sort extends string>(column: Column<never, Sort>, sorting: Sorting<Sort> | undefined): "none" | "ascending" | "descending" | undefined {
  if (column.sort === undefined || sorting === undefined) return undefined;
  if (column.sort !== sorting.by) return "none";
  return sorting.descending ? "descending" : "ascending";
}

/** The selection with the keys added or removed. */
export function withSelected(old: ReadonlySet<string>, keys: readonly string[], selected: boolean): ReadonlySet<string> {
  const next = new Set(old);
  for (const key of keys) if (selected) next.add(key); else next.delete(key);
  return next;
}
