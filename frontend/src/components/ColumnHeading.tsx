import { UnstyledButton } from "@mantine/core";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type Column, nextDescending, type Sorting } from "@/components/table";
import classes from "./table.module.css";

interface Props<Sort extends string> {
  column: Column<never, Sort>;
  sorting: Sorting<Sort> | undefined;
}

/** The header of a column; a button where the column sorts. */
export function ColumnHeading<Sort extends string>({ column, sorting }: Props<Sort>) {
  const { header, heading, headerHidden, sort } = column;
  if (headerHidden === true) return <span className="visually-hidden">{header}</span>;
  if (sort === undefined || sorting === undefined) return heading ?? header;
  const Arrow = sorting.descending ? ArrowDown : ArrowUp;
  return (
    <UnstyledButton
      className={classes.sort ?? ""}
      fz="inherit"
      onClick={() => sorting.onSort(sort, nextDescending(column, sorting))}
      data-testid={sorting.testId && `${sorting.testId}-${sort}`}
    >
      {header}
      {sort === sorting.by && <Arrow size={13} aria-hidden />}
    </UnstyledButton>
  );
}
