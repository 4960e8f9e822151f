import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobsQuery, meQuery } from "@/api/queries";
import { QueryCard } from "@/components/QueryCard";
import { withSelected } from "@/components/table";
import { VirtualTable } from "@/components/VirtualTable";
import { nameOfJob } from "@/lib/describe";
import { type JobFilters, toSearch } from "@/lib/job-filters";
import { isFiltered } from "@/lib/job-views";
import { uniqueJobs } from "@/live/patch";
import { useJobColumns } from "./cells";
import type { JobColumn } from "./job-columns";
import { SelectionBar } from "./SelectionBar";
import { TaskRows } from "./TaskRows";
import classes from "./JobList.module.css";

const NO_IDS: ReadonlySet<string> = new Set();

interface Props {
  filters: JobFilters;
  /** Those of the filters that the page itself sets. */
  ofPage?: JobFilters;
  columns: readonly JobColumn[];
  onChange: (change: JobFilters) => void;
  /** The empty state of the table. */
  empty: (filtered: boolean) => ReactNode;
}

/** The table of matching jobs, with their number or the actions for the selected ones. */
export function JobList({ filters, ofPage, columns, onChange, empty }: Props) {
  const { t } = useTranslation();
  const tableColumns = useJobColumns(columns);
  const navigate = useNavigate();
  const { data: me } = useSuspenseQuery(meQuery);
  const query = useInfiniteQuery(jobsQuery(filters, me.user.name));
  const jobs = useMemo(() => uniqueJobs(query.data?.pages ?? []), [query.data]);
  const total = query.data?.pages[0]?.total;

  const [picked, setPicked] = useState(NO_IDS);
  const [allMatching, setAllMatching] = useState(false);
  const clear = () => {
    setPicked(NO_IDS);
    setAllMatching(false);
  };
  // A change of the filters clears the selection.
  const filterKey = JSON.stringify(filters);
  const [listedKey, setListedKey] = useState(filterKey);
  if (listedKey !== filterKey) {
    setListedKey(filterKey);
    clear();
  }
  const pick = (ids: readonly string[], on: boolean) => {
    setAllMatching(false);
    setPicked((old) => withSelected(old, ids, on));
  };
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  const more = useCallback(() => {
    if (!isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  const filtered = isFiltered(filters, ofPage);
  const selected = jobs.filter((job) => picked.has(job.id));
  return (
    <>
      {selected.length > 0 ? (
        <SelectionBar
          jobs={selected}
          total={total ?? 0}
          search={toSearch(filters, me.user.name)}
          allMatching={allMatching}
          onSelectAll={() => setAllMatching(true)}
          onClear={clear}
        />
      ) : (
        <p role="status" className={`${classes.count ?? ""} tabular`}>
          {total === undefined ? " " : filtered ? t("{{count}} matches", { count: total }) : t("{{count}} jobs", { count: total })}
        </p>
      )}
      <QueryCard query={query} items={query.data && jobs} empty={empty(filtered)} scrolls>
        {() => (
          <VirtualTable
            caption={t("Jobs")}
            columns={tableColumns}
            rows={jobs}
            rowKey={(job) => job.id}
            attributesOf={(job) => ({ "data-testid": "job-row", "data-job": job.id, "data-state": job.state })}
            total={total ?? jobs.length}
            sorting={{
              by: filters.sort ?? "created",
              descending: filters.order !== "asc",
              onSort: (sort, descending) => onChange({ sort, order: descending ? "desc" : "asc" }),
              testId: "jobs-sort",
            }}
            selection={{
              selected: picked,
              onSelect: pick,
              onClear: clear,
              allLabel: t("Select all shown"),
              labelOf: (job) => t("Select {{name}}", { name: nameOfJob(job) }),
            }}
            details={{
              labelOf: (job) => (job.array === null || job.origin === "outside" ? null : t("Tasks of {{name}}", { name: job.name })),
              render: (job) => <TaskRows id={job.id} columns={tableColumns} />,
            }}
            onOpen={(jobId) => void navigate({ to: "/jobs/$jobId", params: { jobId } })}
            more={hasNextPage}
            onMore={more}
          />
        )}
      </QueryCard>
    </>
  );
}
