import { Button } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ListTree, PenLine, SearchX } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobViewsQuery } from "@/api/preferences";
import { meQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { JobFilterBar } from "@/components/jobs/JobFilterBar";
import { JobList } from "@/components/jobs/JobList";
import { ViewsMenu } from "@/components/jobs/ViewsMenu";
import { PageTitle } from "@/components/PageTitle";
import { columnsOf } from "@/lib/job-columns";
import type { JobFilters } from "@/lib/job-filters";
import classes from "./Jobs.module.css";

export function JobsPage() {
  const { t } = useTranslation();
  const filters = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: me } = useSuspenseQuery(meQuery);
  const kept = useQuery(jobViewsQuery).data?.columns;
  const [chosen, setChosen] = useState<string[] | null>(null);
  const names = chosen ?? kept;
  const columns = useMemo(() => columnsOf(names ?? [], filters.all === true), [names, filters.all]);

  const change = (next: JobFilters) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  return (
    <>
      <PageTitle title={t("Jobs")}>
        <Button component={Link} to="/compose" size="sm" leftSection={<PenLine size={16} />} data-testid="jobs-compose">
          {t("Compose a job")}
        </Button>
      </PageTitle>
      <JobFilterBar filters={filters} projects={me.projects} onChange={change}>
        <span className={classes.views}>
          <ViewsMenu
            filters={filters}
            me={me.user.name}
            columns={names ?? []}
            onColumns={setChosen}
            onView={(next, its) => {
              setChosen(its);
              void navigate({ search: next, replace: true });
            }}
          />
        </span>
      </JobFilterBar>
      <JobList filters={filters} columns={columns} onChange={change} empty={(filtered) => <NoJobs filtered={filtered} />} />
    </>
  );
}

function NoJobs({ filtered }: { filtered: boolean }) {
  const { t } = useTranslation();
  return filtered ? (
    <EmptyState
      icon={SearchX}
      title={t("Nothing matches")}
      action={
        <Button component={Link} to="/jobs" variant="default" size="xs" mt="xs">
          {t("Clear the filters")}
        </Button>
      }
    >
      {t("No job has all that was asked for. What ended years ago is listed too.")}
    </EmptyState>
  ) : (
    <EmptyState
      icon={ListTree}
      title={t("No jobs yet")}
      action={
        <Button component={Link} to="/" size="xs" mt="xs">
          {t("Launch one")}
        </Button>
      }
    >
      {t("Everything you launch from here, the command line or the API is listed on this page.")}
    </EmptyState>
  );
}
