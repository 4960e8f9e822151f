import { ActionIcon, Skeleton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronRight } from "lucide-react";
import { memo, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { GridRow, GridTable } from "@/components/GridTable";
import { SelectAll } from "@/components/SelectAll";
import { type Column, type DataAttributes, type Selection, type Sorting, withSelected } from "@/components/table";
import { useTableKeys } from "@/hooks/use-table-keys";
import classes from "./GridTable.module.css";

interface Details<Row> {
  /** Accessible name of the button that unfolds the details of a row; null: the row has none. */
  labelOf: (row: Row) => string | null;
  render: (row: Row) => ReactNode;
}

interface Props<Row, Sort extends string> {
  /** The accessible name of the table. */
  caption: string;
  /** The same object until the columns change. */
  columns: readonly Column<Row, Sort>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  attributesOf?: (row: Row) => DataAttributes;
  /** Number of all rows, of which some may not be fetched yet. */
  total: number;
  sorting: Sorting<Sort>;
  selection: Selection<Row> & { onClear: () => void };
  /** What unfolds below a row. */
  details?: Details<Row>;
  onOpen: (key: string) => void;
  /** Whether more rows can be fetched with `onMore`. */
  more: boolean;
  onMore: () => void;
}

/** Number of rows before the end at which the next page is fetched. */
const PREFETCH_ROWS = 40;

/** A table of thousands of rows, of which only those on the screen are in the page. Its keys: see `useTableKeys`. */
export function VirtualTable<Row, Sort extends string>({ caption, columns, rows, rowKey, attributesOf, total, sorting, selection, details, onOpen, more, onMore }: Props<Row, Sort>) {
  const { selected, onSelect } = selection;
  const narrow = useMediaQuery("(max-width: 720px)", false, { getInitialValueInEffect: false });
  const body = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  // Only rows that were unfolded are measured, because measuring all rows is expensive.
  const [measured, setMeasured] = useState<ReadonlySet<string>>(new Set());
  const lastSelected = useRef<number | null>(null);
  const rowPx = narrow ? 76 : 48;
  const keyAt = (index: number) => rows[index] && rowKey(rows[index]);

  const virtual = useWindowVirtualizer({
    count: rows.length + (more ? 1 : 0),
    estimateSize: () => rowPx,
    overscan: 12,
    scrollMargin: margin,
    getItemKey: (index) => keyAt(index) ?? "more",
  });
  useLayoutEffect(() => {
    const element = body.current;
    if (element === null) return undefined;
    const measure = () => setMargin(element.getBoundingClientRect().top + window.scrollY);
    measure();
    // Content above can change its height, such as a banner or a second line of filters.
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, []);
  useEffect(() => virtual.measure(), [virtual, rowPx]);

  const items = virtual.getVirtualItems();
  const end = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && end >= rows.length - PREFETCH_ROWS) onMore();
  }, [more, end, rows.length, onMore]);

  const currentIndex = useTableKeys({
    count: rows.length,
    onMove: (index) => virtual.scrollToIndex(index, { align: "auto" }),
    onOpen: (index) => {
      const key = keyAt(index);
      if (key !== undefined) onOpen(key);
    },
    onToggle: (index) => {
      const key = keyAt(index);
      if (key !== undefined) onSelect([key], !selected.has(key));
    },
    onClear: selection.onClear,
  });

  const select = (index: number, on: boolean, range: boolean) => {
    const from = range && lastSelected.current !== null ? lastSelected.current : index;
    lastSelected.current = index;
    onSelect(rows.slice(Math.min(from, index), Math.max(from, index) + 1).map(rowKey), on);
  };
  const toggle = (key: string) => {
    setMeasured((old) => withSelected(old, [key], true));
    setUnfolded((old) => withSelected(old, [key], !old.has(key)));
  };
  return (
    <GridTable caption={caption} columns={columns} total={total} sorting={sorting} selectAll={<SelectAll rows={rows} rowKey={rowKey} selection={selection} />}>
      <div ref={body} className={classes.body} role="rowgroup" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index];
          const key = keyAt(item.index);
          return (
            <div
              key={item.key}
              ref={key !== undefined && measured.has(key) ? virtual.measureElement : undefined}
              data-index={item.index}
              className={classes.item}
              style={{ transform: `translateY(${item.start - margin}px)` }}
            >
              {row === undefined || key === undefined ? (
                <div className={classes.loading} aria-busy="true">
                  <Skeleton h={14} w="30%" />
                  <Skeleton h={14} w={90} />
                  <Skeleton h={14} w="20%" />
                </div>
              ) : (
                <>
                  <VirtualRow
                    row={row}
                    index={item.index}
                    columns={columns}
                    attributes={attributesOf?.(row)}
                    current={item.index === currentIndex}
                    selected={selected.has(key)}
                    selectLabel={selection.labelOf(row)}
                    onSelect={select}
                    unfolded={unfolded.has(key)}
                    unfoldLabel={details?.labelOf(row) ?? null}
                    onToggle={() => toggle(key)}
                  />
                  {unfolded.has(key) && details?.render(row)}
                </>
              )}
            </div>
          );
        })}
      </div>
    </GridTable>
  );
}

interface RowProps<Row, Sort extends string> {
  row: Row;
  index: number;
  columns: readonly Column<Row, Sort>[];
  attributes: DataAttributes | undefined;
  current: boolean;
  selected: boolean;
  selectLabel: string;
  onSelect: (index: number, selected: boolean, range: boolean) => void;
  unfolded: boolean;
  /** Null: nothing unfolds. */
  unfoldLabel: string | null;
  onToggle: () => void;
}

function PlainRow<Row, Sort extends string>({ selectLabel, onSelect, unfolded, unfoldLabel, onToggle, ...row }: RowProps<Row, Sort>) {
  const Chevron = unfolded ? ChevronDown : ChevronRight;
  return (
    <GridRow
      {...row}
      check={
        <input
          type="checkbox"
          className={classes.box}
          aria-label={selectLabel}
          checked={row.selected}
          // The click event has the state of the Shift key; the change event does not.
          onClick={(event) => onSelect(row.index, !row.selected, event.shiftKey)}
          onChange={() => undefined}
        />
      }
      toggle={
        unfoldLabel === null ? undefined : (
          <ActionIcon className={classes.above ?? ""} variant="subtle" color="gray" size={24} aria-expanded={unfolded} aria-label={unfoldLabel} onClick={onToggle}>
            <Chevron size={16} />
          </ActionIcon>
        )
      }
    />
  );
}

/** A row that is drawn again only for a change of its own: the callbacks change with every render but are equivalent. */
const VirtualRow = memo(
  PlainRow,
  (old, next) =>
    old.row === next.row && old.index === next.index && old.columns === next.columns && old.current === next.current && old.selected === next.selected && old.unfolded === next.unfolded,
) as typeof PlainRow;
