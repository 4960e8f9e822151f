import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ListTree, SearchX } from "lucide-react";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { columnsOf } from "@/features/jobs/table/job-columns";
import { JobFilterBar } from "@/features/jobs/table/JobFilterBar";
import { JobList } from "@/features/jobs/table/JobList";
import type { JobFilters } from "@/lib/job-filters";

/** Columns that fit beside the side navigation. */
const COLUMNS = columnsOf(["state", "owner", "resources", "placement", "created"], true);

/** Jobs and sessions of all users. */
export function AdminJobsPage() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/shell/admin/jobs" });
  const filters = useMemo(() => ({ ...search, all: true }), [search]);
  const navigate = useNavigate({ from: "/admin/jobs" });
  const { data: me } = useSuspenseQuery(meQuery);
  const change = (next: JobFilters) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  return (
    <>
      <PageTitle title={t("All jobs and sessions")} />
      <JobFilterBar filters={filters} projects={me.projects} onChange={change} allUsersSwitch={false} />
      <JobList
        filters={filters}
        columns={COLUMNS}
        onChange={change}
        empty={(filtered) => (
          <EmptyState icon={filtered ? SearchX : ListTree} title={filtered ? t("No matching jobs") : t("No jobs yet")}>
            {t("Jobs and sessions of all users are listed here.")}
          </EmptyState>
        )}
      />
    </>
  );
}
