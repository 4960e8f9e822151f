import { Tabs } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChartColumn, Database, LayoutDashboard, Settings as SettingsIcon, Users } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { Seen } from "@/api/client";
import { type Project, projectQuery } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { BackLink, PageHead } from "@/components/PageHead";
import { PageLoading } from "@/components/PageLoading";
import { ToneBadge } from "@/components/ToneBadge";
import { useSelectedInView } from "@/hooks/use-selected-in-view";
import { Data } from "./Data";
import { Members } from "./Members";
import { Overview } from "./Overview";
import type { ProjectTab } from "./project-tabs";
import { ProjectAlerts } from "./ProjectAlerts";
import { projectState, rightsIn, roleLabel } from "./projects";
import { Settings } from "./Settings";
import { Usage } from "./Usage";

export function ProjectPage() {
  const { name } = useParams({ from: "/shell/projects/$name" });
  const query = useQuery(projectQuery(name));
  const title = query.data?.value.title ?? "";
  useDocumentTitle(`${title === "" ? name : title} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  return <LoadedProject key={name} seen={query.data} />;
}

function LoadedProject({ seen }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const { tab } = useSearch({ from: "/shell/projects/$name" });
  const navigate = useNavigate({ from: "/projects/$name" });
  const project = seen.value;
  const rights = rightsIn(project, me);
  const activeTab = tab === undefined || (tab === "settings" && !rights.manages) ? "overview" : tab;
  const state = projectState(project.state);
  const strip = useSelectedInView<HTMLDivElement>(activeTab);
  return (
    <>
      <PageHead
        back={<BackLink to="/projects">{t("Projects")}</BackLink>}
        title={project.title || project.name}
        badges={
          <>
            <ToneBadge tone={state.tone} dot>
              {state.label}
            </ToneBadge>
            {rights.role !== null && <ToneBadge tone="neutral">{roleLabel(rights.role)}</ToneBadge>}
          </>
        }
        sub={project.title !== "" && <span className="mono">{project.name}</span>}
      />
      <ProjectAlerts project={project} rights={rights} />
      <Tabs
        value={activeTab}
        onChange={(next) => void navigate({ search: next === null || next === "overview" ? {} : { tab: next as ProjectTab }, replace: true })}
        keepMounted={false}
      >
        <Tabs.List ref={strip} mb="md">
          <Tabs.Tab value="overview" leftSection={<LayoutDashboard size={15} />}>
            {t("Overview")}
          </Tabs.Tab>
          <Tabs.Tab value="members" leftSection={<Users size={15} />}>
            {t("Members")}
          </Tabs.Tab>
          <Tabs.Tab value="usage" leftSection={<ChartColumn size={15} />}>
            {t("Usage")}
          </Tabs.Tab>
          <Tabs.Tab value="data" leftSection={<Database size={15} />}>
            {t("Data")}
          </Tabs.Tab>
          {rights.manages && (
            <Tabs.Tab value="settings" leftSection={<SettingsIcon size={15} />}>
              {t("Settings")}
            </Tabs.Tab>
          )}
        </Tabs.List>
        <Tabs.Panel value="overview">
          <Overview project={project} />
        </Tabs.Panel>
        <Tabs.Panel value="members">
          <Members project={project} rights={rights} me={me.user.name} />
        </Tabs.Panel>
        <Tabs.Panel value="usage">
          <Usage name={project.name} />
        </Tabs.Panel>
        <Tabs.Panel value="data">
          <Data project={project} rights={rights} me={me.user.name} />
        </Tabs.Panel>
        {rights.manages && (
          <Tabs.Panel value="settings">
            <Settings seen={seen} rights={rights} />
          </Tabs.Panel>
        )}
      </Tabs>
    </>
  );
}
