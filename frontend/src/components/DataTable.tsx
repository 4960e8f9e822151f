import { Button, Checkbox, Group } from "@mantine/core";
import { type ComponentPropsWithoutRef, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { ColumnHeading } from "@/components/ColumnHeading";
import { type ListQuery, QueryContent } from "@/components/QueryContent";
import { SelectAll } from "@/components/SelectAll";
import { ariaSortOf, type Column, type DataAttributes, type Selection, type Sorting } from "@/components/table";
import classes from "./table.module.css";

interface TableProps<Row, Sort extends string> {
  columns: readonly Column<Row, Sort>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string | number;
  rowTestId?: string;
  rowProps?: (row: Row) => ComponentPropsWithoutRef<"tr"> & DataAttributes;
  /** Buttons at the end of each row. */
  actions?: ((row: Row) => ReactNode) | undefined;
  /** The accessible name of the table. */
  caption?: string;
  /** The ID of the heading that names the table. */
  labelledBy?: string;
  /** Whether the keyboard scrolls the table, as one of numbers that is wide; needs a caption. */
  scrolls?: boolean;
  /** Whether a row is one place to click: its first cell has a link of the class `link`. */
  linked?: boolean;
  sorting?: Sorting<Sort>;
  selection?: Selection<Row>;
  /** Rows shown at first and added by each "Show more". */
  step?: number;
  className?: string | undefined;
  testId?: string;
}

interface Props<Row, Sort extends string> extends Omit<TableProps<Row, Sort>, "rows"> {
  /** Undefined until the query has data. */
  rows: readonly Row[] | undefined;
  /** Shown while it has no data; without it the rows are there. */
  query?: ListQuery;
  skeletonRows?: number;
  /** Shown instead of a table without rows. */
  empty?: ReactNode;
}

/** A table of rows in columns; on narrow screens a list of cards. */
export function DataTable<Row, Sort extends string>({ query, rows, skeletonRows = 3, empty, ...table }: Props<Row, Sort>) {
  if (query === undefined) return <Table rows={rows ?? []} {...table} />;
  return (
    <QueryContent query={query} items={rows} rows={skeletonRows} empty={empty} compact>
      {(items) => <Table rows={items} {...table} />}
    </QueryContent>
  );
}

function Table<Row, Sort extends string>(props: TableProps<Row, Sort>) {
  const { columns, rows, rowKey, actions, caption, labelledBy, scrolls = false, sorting, selection, step, className, testId } = props;
  const { t } = useTranslation();
  const [shown, setShown] = useState(step);
  const left = rows.length - (shown ?? rows.length);
  return (
    <div className={joined(classes.wrap, className)} {...(scrolls && { tabIndex: 0, role: "group", "aria-label": caption })}>
      <table className={classes.table} aria-labelledby={labelledBy} data-testid={testId}>
        {caption !== undefined && <caption className="visually-hidden">{caption}</caption>}
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={column.key ?? column.header} scope="col" className={column.align && classes.num} aria-sort={ariaSortOf(column, sorting)}>
                <Selectable box={index === 0 && selection && <SelectAll rows={rows} rowKey={rowKey} selection={selection} />}>
                  <ColumnHeading column={column} sorting={sorting} />
                </Selectable>
              </th>
            ))}
            {actions && (
              <th scope="col">
                <span className="visually-hidden">{t("Actions")}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shown).map((row) => (
            <TableRow key={rowKey(row)} row={row} {...props} />
          ))}
        </tbody>
      </table>
      {shown !== undefined && step !== undefined && left > 0 && (
        <Group justify="center" p="md">
          <Button variant="default" size="compact-md" onClick={() => setShown(shown + step)}>
            {t("Show more ({{left}} left)", { left })}
          </Button>
        </Group>
      )}
    </div>
  );
}

function TableRow<Row, Sort extends string>({ row, columns, rowKey, rowTestId, rowProps, actions, linked, selection }: TableProps<Row, Sort> & { row: Row }) {
  const { className, ...attributes } = rowProps?.(row) ?? {};
  const key = String(rowKey(row));
  return (
    <tr data-testid={rowTestId} {...attributes} className={joined(linked && classes.row, className)}>
      {columns.map((column, index) => (
        <td key={column.key ?? column.header} data-label={labelOf(column, index)} className={classOf(column)}>
          <Selectable
            align="flex-start"
            box={
              index === 0 &&
              selection && (
                <Checkbox
                  size="xs"
                  mt={3}
                  aria-label={selection.labelOf(row)}
                  checked={selection.selected.has(key)}
                  onChange={(event) => selection.onSelect([key], event.currentTarget.checked)}
                />
              )
            }
          >
            {column.cell(row)}
          </Selectable>
        </td>
      ))}
      {actions && <td className={classes.num}>{actions(row)}</td>}
    </tr>
  );
}

/** The content of a cell beside the checkbox, if there is one. */
function Selectable({ box, align = "center", children }: { box: ReactNode; align?: string; children: ReactNode }) {
  if (!box) return children;
  return (
    <Group gap={10} wrap="nowrap" align={align}>
      {box}
      {children}
    </Group>
  );
}

function labelOf(column: Column<never>, index: number): string | undefined {
  if (column.label !== undefined) return column.label ?? undefined;
  return index === 0 || column.headerHidden === true ? undefined : column.header;
}

function classOf({ align, dim, nowrap, hideOnPhone, className }: Column<never>): string | undefined {
  return joined(align && classes.num, dim && classes.dim, nowrap && classes.nowrap, hideOnPhone && classes.wide, className);
}

function joined(...names: (string | false | undefined)[]): string | undefined {
  return names.filter(Boolean).join(" ") || undefined;
}
