import { Checkbox } from "@mantine/core";
import type { Selection } from "@/components/table";

interface Props<Row> {
  rows: readonly Row[];
  rowKey: (row: Row) => string | number;
  selection: Selection<Row>;
}

/** The checkbox that selects all rows of a table. */
export function SelectAll<Row>({ rows, rowKey, selection }: Props<Row>) {
  const keys = rows.map((row) => String(rowKey(row)));
  const all = keys.length > 0 && keys.every((key) => selection.selected.has(key));
  return (
    <Checkbox
      size="xs"
      aria-label={selection.allLabel}
      checked={all}
      indeterminate={!all && selection.selected.size > 0}
      onChange={(event) => selection.onSelect(keys, event.currentTarget.checked)}
      data-testid={selection.testId}
    />
  );
}
