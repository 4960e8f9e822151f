import { Button, Skeleton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { messageOf } from "@/api/problem";
import { tasksQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { GridRow, GridTable } from "@/components/GridTable";
import type { Column } from "@/components/table";
import type { JobSort } from "@/lib/job-filters";
import { uniqueJobs } from "@/live/patch";
import { useJobColumns } from "./cells";
import { columnsOf } from "./job-columns";
import classes from "./JobCells.module.css";

/** The tasks of an array job as rows in the columns of the table. */
export function TaskRows({ id, columns }: { id: string; columns: readonly Column<Job, JobSort>[] }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(tasksQuery(id));
  const tasks = useMemo(
    () => uniqueJobs(query.data?.pages ?? []).sort((a, b) => (a.array_task_id ?? 0) - (b.array_task_id ?? 0)),
    [query.data],
  );
  const taskColumns = useMemo(() => columns.map((column) => (column.key === "name" ? { ...column, cell: (task: Job) => <TaskLink task={task} /> } : column)), [columns]);
  return (
    <>
      {tasks.map((task) => (
        <GridRow key={task.id} row={task} columns={taskColumns} nested attributes={{ "data-testid": "job-row", "data-job": task.id, "data-state": task.state }} />
      ))}
      {(query.isPending || query.isError || query.hasNextPage) && (
        <div className={classes.more} role="row">
          <div role="cell">
            {query.isPending && <Skeleton h={14} w={240} />}
            {query.isError && (
              <span role="alert" style={{ marginRight: 12 }}>
                <CodeText>{messageOf(query.error)}</CodeText>
              </span>
            )}
            {(query.isError || query.hasNextPage) && (
              <Button variant="default" size="compact-xs" loading={query.isFetching} onClick={() => void (query.data ? query.fetchNextPage() : query.refetch())}>
                {query.isError ? t("Try again") : t("Show more tasks")}
              </Button>
            )}
          </div>
        </div>
      )}
    </>
  );
}

function TaskLink({ task }: { task: Job }) {
  const { t } = useTranslation();
  return (
    <Link to="/jobs/$jobId" params={{ jobId: task.id }} className={`${classes.link ?? ""} truncate`} title={task.name} preload={false}>
      {t("Task {{number}}", { number: task.array_task_id })}
    </Link>
  );
}

/** On narrow screens the run time is where the table of jobs has the time of creation. */
const COLUMNS = columnsOf(["state", "resources", "nodes", "duration"], false).map((column) => (column.name === "duration" ? { ...column, place: "aside" as const } : column));

/** The tasks of an array job, on the page of the job. */
export function TaskTable({ id }: { id: string }) {
  const { t } = useTranslation();
  const columns = useJobColumns(COLUMNS);
  return (
    <GridTable caption={t("Tasks")} columns={columns}>
      <TaskRows id={id} columns={columns} />
    </GridTable>
  );
}
