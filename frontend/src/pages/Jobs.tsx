import { Button, SegmentedControl, Select, Switch, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ListTree, Search, SearchX } from "lucide-react";
import { Fragment, useEffect, useMemo, useRef, useState } from "react";
import { type JobFilters, jobsQuery, meQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { JobRow, JobTableHead } from "@/components/JobRow";
import { ArrayTasks } from "@/components/ArrayTasks";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import tableClasses from "@/components/table.module.css";
import { STATE_GROUPS } from "@/lib/states";
import { plural } from "@/lib/units";
import { uniqueJobs } from "@/live/patch";
import classes from "./Jobs.module.css";

export function JobsPage() {
  const filters = useSearch({ from: "/shell/jobs" });
  const { data: me } = useSuspenseQuery(meQuery);
  const query = useInfiniteQuery(jobsQuery(filters, me.user.name));
  const jobs = useMemo(() => uniqueJobs(query.data?.pages ?? []), [query.data]);
  const total = query.data?.pages[0]?.total;
  const filtered = Boolean(filters.state ?? filters.type ?? filters.q);
  return (
    <>
      <PageTitle title="Jobs" />
      <Filters filters={filters}>
        {total !== undefined && (
          <span role="status" className={`${classes.count ?? ""} tabular`}>
            {plural(total, filtered ? "match" : "job", filtered ? "matches" : "jobs")}
          </span>
        )}
      </Filters>
      <div className="card" style={{ overflow: "hidden", opacity: query.isPlaceholderData ? 0.6 : 1 }}>
        {query.isPending && <TableSkeleton />}
        {query.isError && !query.data && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {query.data && jobs.length === 0 && <NoJobs filtered={filtered} />}
        {jobs.length > 0 && (
          <div className={tableClasses.wrap}>
            <table className={tableClasses.table}>
              <JobTableHead owner={filters.all === true} />
              <tbody>
                <JobRows jobs={jobs} owner={filters.all === true} />
              </tbody>
            </table>
          </div>
        )}
        {query.hasNextPage && (
          <LoadMore
            busy={query.isFetchingNextPage}
            failed={query.isFetchNextPageError}
            onMore={() => void query.fetchNextPage()}
          />
        )}
      </div>
    </>
  );
}

function JobRows({ jobs, owner }: { jobs: ReturnType<typeof uniqueJobs>; owner: boolean }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const toggle = (id: string) =>
    setOpen((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  return jobs.map((job) => (
    <Fragment key={job.id}>
      <JobRow
        job={job}
        owner={owner}
        expanded={job.array === null ? undefined : open.has(job.id)}
        onToggle={() => toggle(job.id)}
      />
      {open.has(job.id) && <ArrayTasks id={job.id} owner={owner} />}
    </Fragment>
  ));
}

function Filters({ filters, children }: { filters: JobFilters; children: React.ReactNode }) {
  const navigate = useNavigate({ from: "/jobs" });
  const change = (next: JobFilters) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  const [text, setText] = useState(filters.q ?? "");
  const sent = useRef(filters.q ?? "");
  const search = useDebouncedCallback((q: string) => {
    sent.current = q;
    change({ q });
  }, 250);
  useEffect(() => {
    // Back and forward change the address; the field follows, but never while somebody types into it.
    if ((filters.q ?? "") !== sent.current) {
      sent.current = filters.q ?? "";
      setText(sent.current);
    }
  }, [filters.q]);
  return (
    <div className={classes.filters} role="search">
      <TextInput
        className={classes.search}
        aria-label="Search by name"
        placeholder="Search by name"
        leftSection={<Search size={16} />}
        type="search"
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          search(event.currentTarget.value);
        }}
        data-testid="jobs-search"
      />
      <Select
        aria-label="State"
        placeholder="Any state"
        clearable
        w={150}
        data={STATE_GROUPS.map(({ value, label }) => ({ value, label }))}
        value={filters.state ?? null}
        onChange={(state) => change({ state: state ?? undefined })}
        data-testid="jobs-state"
      />
      <SegmentedControl
        aria-label="Type"
        data={[
          { value: "any", label: "All" },
          { value: "job", label: "Jobs" },
          { value: "session", label: "Sessions" },
        ]}
        value={filters.type ?? "any"}
        onChange={(type) => change({ type: type === "any" ? undefined : type })}
      />
      <Switch
        label="Everyone's"
        checked={filters.all === true}
        onChange={(event) => change({ all: event.currentTarget.checked })}
        data-testid="jobs-all"
      />
      {children}
    </div>
  );
}

function NoJobs({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <EmptyState
      icon={SearchX}
      title="Nothing matches"
      action={
        <Button component={Link} to="/jobs" variant="default" size="xs" mt="xs">
          Clear the filters
        </Button>
      }
    >
      No job has this name and state.
    </EmptyState>
  ) : (
    <EmptyState
      icon={ListTree}
      title="No jobs yet"
      action={
        <Button component={Link} to="/" size="xs" mt="xs">
          Launch one
        </Button>
      }
    >
      Everything you launch from here, the command line or the API is listed on this page.
    </EmptyState>
  );
}

/** Loads the next page when it comes into view; the button is for the keyboard and for a failure. */
function LoadMore({ busy, failed, onMore }: { busy: boolean; failed: boolean; onMore: () => void }) {
  const mark = useRef<HTMLDivElement>(null);
  const more = useRef(onMore);
  useEffect(() => {
    more.current = onMore;
  });
  useEffect(() => {
    if (mark.current === null || busy || failed) return undefined;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) more.current();
      },
      { rootMargin: "400px" },
    );
    observer.observe(mark.current);
    return () => observer.disconnect();
  }, [busy, failed]);
  return (
    <div className={classes.more} ref={mark}>
      <Button variant="default" size="xs" loading={busy} onClick={onMore}>
        {failed ? "That failed; try again" : "Show more"}
      </Button>
    </div>
  );
}
