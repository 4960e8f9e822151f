import { Checkbox, Skeleton, UnstyledButton } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { nameOfJob } from "@/lib/describe";
import type { JobSort } from "@/lib/job-filters";
import { cellOf, NameCell } from "./cells";
import type { Column } from "./job-columns";
import { TaskRows, trackStyle } from "./TaskRows";
import { useTableKeys } from "./use-table-keys";
import classes from "./JobTable.module.css";

interface Props {
  jobs: readonly Job[];
  total: number;
  columns: readonly Column[];
  sort: JobSort;
  descending: boolean;
  onSort: (sort: JobSort) => void;
  picked: ReadonlySet<string>;
  onPick: (ids: readonly string[], picked: boolean) => void;
  onOpen: (id: string) => void;
  onClear: () => void;
  /** Whether more jobs can be fetched with `onMore`. */
  more: boolean;
  onMore: () => void;
}

/** Number of rows before the end at which the next page is fetched. */
const PREFETCH_ROWS = 40;

export function JobTable(props: Props) {
  const { jobs, columns, more, onMore, picked, onPick } = props;
  const { t } = useTranslation();
  const narrow = useMediaQuery("(max-width: 720px)", false, { getInitialValueInEffect: false });
  const body = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const [expandedIds, setExpandedIds] = useState<ReadonlySet<string>>(new Set());
  // Only rows that were expanded are measured, because measuring all rows is expensive.
  const [measuredIds, setMeasuredIds] = useState<ReadonlySet<string>>(new Set());
  const lastPicked = useRef<number | null>(null);
  const rowPx = narrow ? 76 : 48;

  const rows = useWindowVirtualizer({
    count: jobs.length + (more ? 1 : 0),
    estimateSize: () => rowPx,
    overscan: 12,
    scrollMargin: margin,
    getItemKey: (index) => jobs[index]?.id ?? "more",
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
  useEffect(() => rows.measure(), [rows, rowPx]);

  const items = rows.getVirtualItems();
  const end = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && end >= jobs.length - PREFETCH_ROWS) onMore();
  }, [more, end, jobs.length, onMore]);

  const currentIndex = useTableKeys({
    count: jobs.length,
    onMove: (index) => rows.scrollToIndex(index, { align: "auto" }),
    onOpen: (index) => jobs[index] && props.onOpen(jobs[index].id),
    onToggle: (index) => {
      const job = jobs[index];
      if (job) onPick([job.id], !picked.has(job.id));
    },
    onClear: props.onClear,
  });

  const style = useMemo(() => trackStyle(columns), [columns]);
  const pick = (index: number, on: boolean, range: boolean) => {
    const from = range && lastPicked.current !== null ? lastPicked.current : index;
    lastPicked.current = index;
    onPick(jobs.slice(Math.min(from, index), Math.max(from, index) + 1).map((job) => job.id), on);
  };
  const allPicked = jobs.length > 0 && jobs.every((job) => picked.has(job.id));
  return (
    <div className={classes.scroll}>
      <div className={`${classes.table ?? ""} ${classes.inner ?? ""}`} role="table" aria-label={t("Jobs")} aria-rowcount={props.total + 1} style={style}>
        <div role="rowgroup">
          <div className={classes.head} role="row" aria-rowindex={1}>
            <div className={classes.check} role="columnheader">
              <Checkbox
                size="xs"
                aria-label={t("Select all shown")}
                checked={allPicked}
                indeterminate={!allPicked && picked.size > 0}
                onChange={(event) => onPick(jobs.map((job) => job.id), event.currentTarget.checked)}
              />
            </div>
            {columns.map((column) => (
              <HeadCell key={column.name} column={column} {...props} />
            ))}
          </div>
        </div>
        <div ref={body} className={classes.body} role="rowgroup" style={{ height: rows.getTotalSize() }}>
          {items.map((item) => {
            const job = jobs[item.index];
            return (
              <div
                key={item.key}
                ref={job !== undefined && measuredIds.has(job.id) ? rows.measureElement : undefined}
                data-index={item.index}
                className={classes.item}
                style={{ transform: `translateY(${item.start - margin}px)` }}
              >
                {job === undefined ? (
                  <div className={classes.loading} aria-busy="true">
                    <Skeleton h={14} w="30%" />
                    <Skeleton h={14} w={90} />
                    <Skeleton h={14} w="20%" />
                  </div>
                ) : (
                  <>
                    <Row
                      job={job}
                      index={item.index}
                      columns={columns}
                      current={item.index === currentIndex}
                      picked={picked.has(job.id)}
                      expanded={job.array === null || job.origin === "outside" ? undefined : expandedIds.has(job.id)}
                      onToggle={() => {
                        setMeasuredIds((old) => new Set(old).add(job.id));
                        setExpandedIds((old) => toggled(old, job.id));
                      }}
                      onPick={pick}
                    />
                    {expandedIds.has(job.id) && <TaskRows id={job.id} columns={columns} />}
                  </>
                )}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function HeadCell({ column, sort, descending, onSort }: { column: Column } & Pick<Props, "sort" | "descending" | "onSort">) {
  const { t } = useTranslation();
  const by = column.sort;
  const look = `${classes.cell ?? ""} ${column.number ? (classes.number ?? "") : ""}`;
  if (by === undefined) {
    return (
      <div role="columnheader" className={look}>
        {t(column.label)}
      </div>
    );
  }
  const Arrow = descending ? ArrowDown : ArrowUp;
  return (
    <div role="columnheader" className={look} aria-sort={sort !== by ? "none" : descending ? "descending" : "ascending"}>
      <UnstyledButton className={classes.sort ?? ""} fz="inherit" onClick={() => onSort(by)} data-testid={`jobs-sort-${by}`}>
        {t(column.label)}
        {sort === by && <Arrow size={13} aria-hidden />}
      </UnstyledButton>
    </div>
  );
}

interface RowProps {
  job: Job;
  index: number;
  columns: readonly Column[];
  current: boolean;
  picked: boolean;
  expanded: boolean | undefined;
  onToggle: () => void;
  onPick: (index: number, picked: boolean, range: boolean) => void;
}

const Row = memo(
  function Row({ job, index, columns, current, picked, expanded, onToggle, onPick }: RowProps) {
    const { t } = useTranslation();
    const look = [classes.row, current && classes.current, picked && classes.picked].filter(Boolean).join(" ");
    return (
      <div className={look} role="row" aria-rowindex={index + 2} aria-selected={picked} data-testid="job-row" data-job={job.id} data-state={job.state}>
        <div role="cell" className={classes.check}>
          <input
            type="checkbox"
            className={classes.box}
            aria-label={t("Select {{name}}", { name: nameOfJob(job) })}
            checked={picked}
            // The click event has the state of the Shift key; the change event does not.
            onClick={(event) => onPick(index, !picked, event.shiftKey)}
            onChange={() => undefined}
          />
        </div>
        {columns.map((column) => (
          <div
            key={column.name}
            role="cell"
            className={[classes.cell, classes[column.name], column.number && classes.number].filter(Boolean).join(" ")}
          >
            {column.name === "name" ? <NameCell job={job} expanded={expanded} onToggle={onToggle} /> : cellOf(column.name, job)}
          </div>
        ))}
      </div>
    );
  },
  // The callbacks change with every render but are equivalent.
  (old, next) =>
    old.job === next.job && old.index === next.index && old.columns === next.columns && old.current === next.current && old.picked === next.picked && old.expanded === next.expanded,
);

function toggled(old: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(old);
  if (!next.delete(id)) next.add(id);
  return next;
}
