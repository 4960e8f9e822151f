import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobsQuery, meQuery } from "@/api/queries";
import { QueryCard } from "@/components/QueryCard";
import { type JobFilters, type JobSort, toSearch } from "@/lib/job-filters";
import { isFiltered } from "@/lib/job-views";
import { uniqueJobs } from "@/live/patch";
import type { Column } from "./job-columns";
import { JobTable } from "./JobTable";
import { SelectionBar } from "./SelectionBar";
import classes from "./JobList.module.css";

/** Columns that sort in descending order first; the others start in ascending order. */
const DESCENDING_FIRST = new Set<JobSort>(["created", "started", "ended", "duration", "gpus"]);
const NO_IDS: ReadonlySet<string> = new Set();

interface Props {
  filters: JobFilters;
  /** Those of the filters that the page itself sets. */
  ofPage?: JobFilters;
  columns: readonly Column[];
  onChange: (change: JobFilters) => void;
  /** The empty state of the table. */
  empty: (filtered: boolean) => ReactNode;
}

/** The table of matching jobs, with their number or the actions for the selected ones. */
export function JobList({ filters, ofPage, columns, onChange, empty }: Props) {
  const { t } = useTranslation();
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
    setPicked((old) => {
      const next = new Set(old);
      for (const id of ids) if (on) next.add(id); else next.delete(id);
      return next;
    });
  };
  const sort = (by: JobSort) =>
    onChange(filters.sort === by ? { order: filters.order === "asc" ? "desc" : "asc" } : { sort: by, order: DESCENDING_FIRST.has(by) ? "desc" : "asc" });
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
          <JobTable
            jobs={jobs}
            total={total ?? jobs.length}
            columns={columns}
            sort={filters.sort ?? "created"}
            descending={filters.order !== "asc"}
            onSort={sort}
            picked={picked}
            onPick={pick}
            onOpen={(jobId) => void navigate({ to: "/jobs/$jobId", params: { jobId } })}
            onClear={clear}
            more={hasNextPage}
            onMore={more}
          />
        )}
      </QueryCard>
    </>
  );
}
