import { Button, Checkbox, Select, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { FolderOpen, Plus, Search, SearchX } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Project, type ProjectFilters, projectListQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import { NewProjectModal } from "./NewProjectModal";
import { ProjectCard } from "./ProjectCard";
import { PROJECT_STATES, projectState, rightsIn } from "./projects";
import { Requests } from "./Requests";
import classes from "./Projects.module.css";

/** Up to this number of projects, balances are loaded for all of them; above it, only for the user's own projects. */
const MAX_BALANCES = 30;
/** Above this number of projects, users who are not administrators can search in them. */
const MANY = 12;

/** Projects of the user as cards. Administrators see all projects, with open requests first. */
export function ProjectsPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const admin = me.user.role === "admin";
  const [filters, setFilters] = useState<ProjectFilters>({ q: "", state: null, personal: !admin });
  const [q] = useDebouncedValue(filters.q.trim(), 250);
  const query = useInfiniteQuery(projectListQuery({ ...filters, q }));
  const [creating, setCreating] = useState(false);
  const projects = query.data?.pages.flatMap((page) => page.items);
  const total = query.data?.pages[0]?.total;
  const filtered = filters.q !== "" || filters.state !== null;
  return (
    <>
      <PageTitle title={t("Projects")}>
        <ChangeButton leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="project-new">
          {t("New project")}
        </ChangeButton>
      </PageTitle>
      {admin && <Requests />}
      {(admin || filtered || (total ?? 0) > MANY) && <Filters value={filters} admin={admin} total={total} onChange={setFilters} />}
      {query.isPending && (
        <div className="card">
          <TableSkeleton rows={4} />
        </div>
      )}
      {query.isError && !projects && <PageError error={query.error} onRetry={() => query.refetch()} />}
      {projects?.length === 0 && (
        <div className="card">
          <EmptyState icon={filtered ? SearchX : FolderOpen} title={filtered ? t("No matching projects") : admin ? t("No shared projects") : t("No projects")}>
            {filtered
              ? t("The search covers the name and the title.")
              : admin
                ? t("Personal projects, such as your {{project}}, are not listed.", { project: me.user.default_project })
                : t("Request a project, or ask a project manager for an invitation.")}
          </EmptyState>
        </div>
      )}
      {projects && projects.length > 0 && (
        <ul className={classes.cards}>
          {sortProjects(projects, me).map((project) => (
            <ProjectCard
              key={project.name}
              project={project}
              me={me}
              balance={projects.length <= MAX_BALANCES || rightsIn(project, me).role !== null}
            />
          ))}
        </ul>
      )}
      {query.hasNextPage && (
        <div className={classes.more}>
          <Button variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()} data-testid="projects-more">
            {query.isFetchNextPageError ? t("Failed to load. Try again") : t("Show more")}
          </Button>
        </div>
      )}
      {creating && <NewProjectModal admin={admin} me={me.user.name} onClose={() => setCreating(false)} />}
    </>
  );
}

interface FiltersProps {
  value: ProjectFilters;
  admin: boolean;
  total: number | undefined;
  onChange: (value: ProjectFilters) => void;
}

function Filters({ value, admin, total, onChange }: FiltersProps) {
  const { t } = useTranslation();
  return (
    <div className={classes.filters} role="search">
      <TextInput
        aria-label={t("Search projects")}
        placeholder={t("Name or title")}
        leftSection={<Search size={16} />}
        value={value.q}
        onChange={(event) => onChange({ ...value, q: event.currentTarget.value })}
        spellCheck={false}
        autoCapitalize="none"
        data-testid="project-search"
      />
      <Select
        aria-label={t("State")}
        placeholder={t("Any state")}
        data={PROJECT_STATES.map((state) => ({ value: state, label: projectState(state).label }))}
        value={value.state}
        clearable
        onChange={(state) => onChange({ ...value, state })}
        data-testid="project-state"
      />
      {admin && (
        <Checkbox
          label={t("Personal projects")}
          checked={value.personal}
          onChange={(event) => onChange({ ...value, personal: event.currentTarget.checked })}
          data-testid="project-personal"
        />
      )}
      <Text size="sm" c="dimmed" role="status">
        {total !== undefined && total > 0 && t("{{count}} projects", { count: total })}
      </Text>
    </div>
  );
}

const STATE_ORDER = { active: 0, requested: 1, expired: 2, closed: 3 } as const;

/** Projects of the user first, then by state and name. */
function sortProjects(projects: readonly Project[], me: Me): Project[] {
  const order = (project: Project) => (rightsIn(project, me).role === null ? 10 : 0) + STATE_ORDER[project.state];
  return [...projects].sort((a, b) => order(a) - order(b) || a.name.localeCompare(b.name));
}
