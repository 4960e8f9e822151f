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

/** An administrator's list may be long: then only one's own are asked for their balance. */
const MOST_BALANCES = 30;

/** One's projects as cards; for administrators all of them, what waits for an answer first. */
export function ProjectsPage() {
  const { t } = useTranslation();
  const query = useQuery(projectsQuery);
  const { data: me } = useSuspenseQuery(meQuery);
  const [making, setMaking] = useState(false);
  const projects = query.data?.items;
  const admin = me.user.role === "admin";
  return (
    <>
      <PageTitle title={t("Projects")}>
        <Button leftSection={<Plus size={16} />} onClick={() => setMaking(true)} data-testid="project-new">
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
          <EmptyState icon={FolderOpen} title={t("You are in no project")}>
            {t("Ask for one, or let somebody who manages one invite you.")}
          </EmptyState>
        </div>
      )}
      {projects && admin && <Requests projects={projects} />}
      {projects && projects.length > 0 && (
        <ul className={classes.cards}>
          {inOrder(projects, me).map((project) => (
            <ProjectCard
              key={project.name}
              project={project}
              me={me}
              balance={projects.length <= MOST_BALANCES || rightsIn(project, me).role !== null}
            />
          ))}
        </ul>
      )}
      {making && <NewProjectModal admin={admin} onClose={() => setMaking(false)} />}
    </>
  );
}

const RANKS = { active: 0, requested: 1, expired: 2, closed: 3 } as const;

/** One's own first, those that take jobs first. */
function inOrder(projects: readonly Project[], me: Me): Project[] {
  const rank = (project: Project) => (rightsIn(project, me).role === null ? 10 : 0) + RANKS[project.state];
  return [...projects].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}
