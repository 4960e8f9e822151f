import { Button, Skeleton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type CSSProperties, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { messageOf } from "@/api/problem";
import { tasksQuery } from "@/api/queries";
import { CodeText } from "@/components/CodeText";
import { uniqueJobs } from "@/live/patch";
import { cellOf } from "./cells";
import { type Column, columnsOf, minWidthOf } from "./job-columns";
import classes from "./JobTable.module.css";

/** The tasks of an array job as rows in the columns of the table. */
export function TaskRows({ id, columns }: { id: string; columns: readonly Column[] }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(tasksQuery(id));
  const tasks = useMemo(
    () => uniqueJobs(query.data?.pages ?? []).sort((a, b) => (a.array_task_id ?? 0) - (b.array_task_id ?? 0)),
    [query.data],
  );
  return (
    <>
      {tasks.map((task) => (
        <div key={task.id} className={`${classes.row ?? ""} ${classes.task ?? ""}`} role="row" data-testid="job-row" data-job={task.id} data-state={task.state}>
          <div role="cell" className={classes.check} />
          {columns.map((column) => (
            <div key={column.name} role="cell" className={[classes.cell, classes[column.name], column.number && classes.number].filter(Boolean).join(" ")}>
              {column.name === "name" ? (
                <Link to="/jobs/$jobId" params={{ jobId: task.id }} className={`${classes.link ?? ""} truncate`} title={task.name} preload={false}>
                  {t("Task {{number}}", { number: task.array_task_id })}
                </Link>
              ) : (
                cellOf(column.name, task)
              )}
            </div>
          ))}
        </div>
      ))}
      {(query.isPending || query.isError || query.hasNextPage) && (
        <div className={classes.loading} role="row">
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

const COLUMNS = columnsOf(["state", "resources", "nodes", "duration"], false);

/** The tasks of an array job, on the page of the job. */
export function TaskTable({ id }: { id: string }) {
  const { t } = useTranslation();
  return (
    <div className={classes.scroll}>
      <div className={`${classes.table ?? ""} ${classes.inner ?? ""} ${classes.plain ?? ""}`} role="table" aria-label={t("Tasks")} style={trackStyle(COLUMNS, 0)}>
        <div className={classes.head} role="row">
          <div className={classes.check} />
          {COLUMNS.map((column) => (
            <div key={column.name} role="columnheader" className={`${classes.cell ?? ""} ${column.number ? (classes.number ?? "") : ""}`}>
              {t(column.label)}
            </div>
          ))}
        </div>
        <TaskRows id={id} columns={COLUMNS} />
      </div>
    </div>
  );
}

/** The columns as CSS variables of the grid. */
export function trackStyle(columns: readonly Column[], first = 40): CSSProperties {
  return {
    "--columns": columns.map(({ track }) => track).join(" "),
    "--min-width": `${first + columns.reduce((sum, { track }) => sum + minWidthOf(track) + 14, 28)}px`,
  } as CSSProperties;
}
