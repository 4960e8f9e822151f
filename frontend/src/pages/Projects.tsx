import { Button } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { FolderOpen, Plus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Project, projectsQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { NewProjectModal } from "@/components/projects/NewProjectModal";
import { ProjectCard } from "@/components/projects/ProjectCard";
import classes from "@/components/projects/Projects.module.css";
import { Requests } from "@/components/projects/Requests";
import { TableSkeleton } from "@/components/TableSkeleton";
import { rightsIn } from "@/lib/projects";

/** Up to this number of projects, balances are loaded for all of them; above it, only for the user's own projects. */
const MAX_BALANCES = 30;

/** Projects of the user as cards. Administrators see all projects, with open requests first. */
export function ProjectsPage() {
  const { t } = useTranslation();
  const query = useQuery(projectsQuery);
  const { data: me } = useSuspenseQuery(meQuery);
  const [creating, setCreating] = useState(false);
  const projects = query.data?.items;
  const admin = me.user.role === "admin";
  return (
    <>
      <PageTitle title={t("Projects")}>
        <Button leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="project-new">
          {t("New project")}
        </Button>
      </PageTitle>
      {query.isPending && (
        <div className="card">
          <TableSkeleton rows={4} />
        </div>
      )}
      {query.isError && !projects && <PageError error={query.error} onRetry={() => void query.refetch()} />}
      {projects?.length === 0 && (
        <div className="card">
          <EmptyState icon={FolderOpen} title={t("No projects")}>
            {t("Request a project, or ask a project manager for an invitation.")}
          </EmptyState>
        </div>
      )}
      {projects && admin && <Requests projects={projects} />}
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
      {creating && <NewProjectModal admin={admin} onClose={() => setCreating(false)} />}
    </>
  );
}

const STATE_ORDER = { active: 0, requested: 1, expired: 2, closed: 3 } as const;

/** Projects of the user first, then by state and name. */
function sortProjects(projects: readonly Project[], me: Me): Project[] {
  const order = (project: Project) => (rightsIn(project, me).role === null ? 10 : 0) + STATE_ORDER[project.state];
  return [...projects].sort((a, b) => order(a) - order(b) || a.name.localeCompare(b.name));
}
