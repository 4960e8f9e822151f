import type { CSSProperties, ReactNode } from "react";
import { ColumnHeading } from "@/components/ColumnHeading";
import { ariaSortOf, type Column, type DataAttributes, type Sorting } from "@/components/table";
import classes from "./GridTable.module.css";

interface Props<Row, Sort extends string> {
  /** The accessible name of the table. */
  caption: string;
  columns: readonly Column<Row, Sort>[];
  /** Number of all rows, where only some of them are in the page. */
  total?: number;
  sorting?: Sorting<Sort>;
  /** The checkbox for all rows; without it the rows cannot be selected. */
  selectAll?: ReactNode;
  /** The rows: a `GridRow` each. */
  children: ReactNode;
}

/** A table whose rows are grids of the same tracks; on narrow screens each row is a card of two lines. */
export function GridTable<Row, Sort extends string>({ caption, columns, total, sorting, selectAll, children }: Props<Row, Sort>) {
  const selects = selectAll !== undefined;
  return (
    <div className={classes.scroll}>
      <div
        className={`${classes.table ?? ""} ${selects ? "" : (classes.plain ?? "")}`}
        role="table"
        aria-label={caption}
        aria-rowcount={total === undefined ? undefined : total + 1}
        style={trackStyle(columns, selects ? 40 : 0)}
      >
        <div role="rowgroup">
          <div className={classes.head} role="row" aria-rowindex={total === undefined ? undefined : 1}>
            <div className={classes.check} role={selects ? "columnheader" : undefined}>
              {selectAll}
            </div>
            {columns.map((column) => (
              <div key={column.key ?? column.header} role="columnheader" className={`${classes.cell ?? ""} ${column.align ? (classes.number ?? "") : ""}`} aria-sort={ariaSortOf(column, sorting)}>
                <ColumnHeading column={column} sorting={sorting} />
              </div>
            ))}
          </div>
        </div>
        {children}
      </div>
    </div>
  );
}

interface RowProps<Row, Sort extends string> {
  row: Row;
  columns: readonly Column<Row, Sort>[];
  /** Place of the row among all. */
  index?: number;
  current?: boolean;
  /** Undefined: the row cannot be selected. */
  selected?: boolean;
  /** Whether the row belongs to the one above. */
  nested?: boolean;
  attributes?: DataAttributes | undefined;
  check?: ReactNode;
  /** The button that unfolds what belongs to the row. */
  toggle?: ReactNode;
}

export function GridRow<Row, Sort extends string>({ row, columns, index, current = false, selected, nested = false, attributes, check, toggle }: RowProps<Row, Sort>) {
  const look = [classes.row, current && classes.current, selected === true && classes.selected, nested && classes.nested].filter(Boolean).join(" ");
  return (
    <div className={look} role="row" aria-rowindex={index === undefined ? undefined : index + 2} aria-selected={selected} {...attributes}>
      <div role="cell" className={classes.check}>
        {check}
      </div>
      {columns.map((column, at) => (
        <div
          key={column.key ?? column.header}
          role="cell"
          className={[classes.cell, column.dim === true && classes.dim, column.align && classes.number].filter(Boolean).join(" ")}
          data-place={column.place}
        >
          {at === 0 && toggle !== undefined ? (
            <span className={classes.unfolding}>
              {toggle}
              {column.cell(row)}
            </span>
          ) : (
            column.cell(row)
          )}
        </div>
      ))}
    </div>
  );
}

/** The columns as CSS variables of the grid. */
function trackStyle(columns: readonly Column<never>[], first: number): CSSProperties {
  const tracks = columns.map(({ width = "minmax(80px, 1fr)" }) => width);
  return {
    "--columns": tracks.join(" "),
    "--min-width": `${first + tracks.reduce((sum, track) => sum + minWidthOf(track) + 14, 28)}px`,
  } as CSSProperties;
}

/** The minimum width of a track in pixels. */
function minWidthOf(track: string): number {
  return Number(/(\d+)px/.exec(track)?.[1] ?? 80);
}
