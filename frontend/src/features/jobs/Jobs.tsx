import { Button } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ListTree, SearchX } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobViewsQuery } from "@/api/preferences";
import { meQuery } from "@/api/queries";
import { ComposeLink } from "@/components/ComposeLink";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { columnsOf } from "@/features/jobs/table/job-columns";
import { JobFilterBar } from "@/features/jobs/table/JobFilterBar";
import { JobList } from "@/features/jobs/table/JobList";
import { ViewsMenu } from "@/features/jobs/table/ViewsMenu";
import type { JobFilters } from "@/lib/job-filters";
import classes from "@/components/Jobs.module.css";

export function JobsPage() {
  const { t } = useTranslation();
  const filters = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const { data: me } = useSuspenseQuery(meQuery);
  const storedColumns = useQuery(jobViewsQuery).data?.columns;
  const [selectedColumns, setSelectedColumns] = useState<string[] | null>(null);
  const names = selectedColumns ?? storedColumns;
  const columns = useMemo(() => columnsOf(names ?? [], filters.all === true), [names, filters.all]);

  const change = (next: JobFilters) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  return (
    <>
      <PageTitle title={t("Jobs")}>
        <ComposeLink testId="jobs-compose">{t("New job")}</ComposeLink>
      </PageTitle>
      <JobFilterBar filters={filters} projects={me.projects} onChange={change}>
        <span className={classes.views}>
          <ViewsMenu
            filters={filters}
            me={me.user.name}
            columns={names ?? []}
            onColumns={setSelectedColumns}
            onView={(next, viewColumns) => {
              setSelectedColumns(viewColumns);
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
      title={t("No matching jobs")}
      action={
        <Button component={Link} to="/jobs" variant="default" size="xs" mt="xs">
          {t("Clear filters")}
        </Button>
      }
    >
      {t("No job matches all filters. Ended jobs are included.")}
    </EmptyState>
  ) : (
    <EmptyState
      icon={ListTree}
      title={t("No jobs yet")}
      action={
        <Button component={Link} to="/" size="xs" mt="xs">
          {t("Launch a job")}
        </Button>
      }
    >
      {t("Jobs launched in the portal, on the command line or through the API are listed here.")}
    </EmptyState>
  );
}
