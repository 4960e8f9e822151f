import { Button, Skeleton } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { messageOf } from "@/api/problem";
import { tasksQuery } from "@/api/queries";
import { JobRow } from "@/components/JobRow";
import { uniqueJobs } from "@/live/patch";
import classes from "./table.module.css";

/** The rows of an array job's tasks, below it. */
export function ArrayTasks({ id, owner }: { id: string; owner: boolean }) {
  const query = useInfiniteQuery(tasksQuery(id));
  const tasks = useMemo(
    () => uniqueJobs(query.data?.pages ?? []).sort((a, b) => (a.array_task_id ?? 0) - (b.array_task_id ?? 0)),
    [query.data],
  );
  const columns = owner ? 7 : 6;
  return (
    <>
      {tasks.map((task) => (
        <JobRow key={task.id} job={task} owner={owner} child />
      ))}
      {(query.isPending || query.isError || query.hasNextPage) && (
        <tr className={classes.child}>
          <td colSpan={columns}>
            {query.isPending && <Skeleton h={16} w="40%" />}
            {query.isError && (
              <span role="alert" style={{ marginRight: 12 }}>
                {messageOf(query.error)}
              </span>
            )}
            {(query.isError || query.hasNextPage) && (
              <Button
                variant="default"
                size="compact-xs"
                loading={query.isFetching}
                onClick={() => void (query.data ? query.fetchNextPage() : query.refetch())}
              >
                {query.isError ? "Try again" : "Show more tasks"}
              </Button>
            )}
          </td>
        </tr>
      )}
    </>
  );
}
