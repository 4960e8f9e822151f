import { Alert, Group, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CalendarClock, CirclePause, Hourglass, Lock } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Project, projectKeys, reopenProject } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { notifyDone, notifyProblem } from "@/components/notify";
import { useSlowNow } from "@/hooks/use-now";
import { dayOf, endsSoon, type Rights } from "./projects";
import { DecisionButtons } from "./Requests";
import { TimeModal } from "./TimeModal";

/** Alerts for a project that accepts no jobs or will soon end, with their actions. */
export function ProjectAlerts({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  const extension = project.extension;
  return (
    <>
      {project.state === "requested" && (
        <Alert color="orange" icon={<Hourglass size={18} />} mb="md" title={t("Pending approval")}>
          <Group justify="space-between" gap="md">
            <Text size="sm">
              {rights.admin
                ? t("Requested by {{who}}.", { who: project.requested_by ?? "" })
                : t("The project accepts jobs after an administrator has approved it.")}{" "}
              {project.note}
            </Text>
            {rights.admin && <DecisionButtons project={project} />}
          </Group>
        </Alert>
      )}
      {project.state === "closed" && <Closed project={project} rights={rights} />}
      {(project.state === "expired" || endsSoon(project, now)) && <Ending project={project} rights={rights} />}
      {extension !== null && (
        <Alert color="indigo" icon={<CalendarClock size={18} />} mb="md" title={t("Extension requested")}>
          <Group justify="space-between" gap="md">
            <Text size="sm">
              {t("{{who}} requested an extension until {{day}}.", { who: extension.by, day: dayOf(extension.until) })} {extension.reason}
            </Text>
            {rights.admin && <DecisionButtons project={project} />}
          </Group>
        </Alert>
      )}
    </>
  );
}

function Closed({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const canReopen = rights.admin || (rights.manages && project.closed_by !== "admin");
  const reopen = useMutation({
    mutationFn: () => reopenProject(project.name),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(t("{{name}} reopened.", { name: project.name }));
    },
    onError: (error) => notifyProblem(t("The project was not reopened"), error),
  });
  return (
    <Alert color="gray" icon={<Lock size={18} />} mb="md" title={t("Closed")}>
      <Group justify="space-between" gap="md">
        <Text size="sm">
          {t("The project accepts no new jobs. Running jobs continue.")} {project.note}
        </Text>
        {canReopen && (
          <ChangeButton variant="default" size="sm" loading={reopen.isPending} onClick={() => reopen.mutate()} data-testid="reopen">
            {t("Reopen")}
          </ChangeButton>
        )}
      </Group>
    </Alert>
  );
}

function Ending({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const [extending, setExtending] = useState(false);
  const expired = project.state === "expired";
  const day = project.expires_at === null ? "" : dayOf(project.expires_at);
  return (
    <Alert
      color={expired ? "red" : "orange"}
      icon={<CirclePause size={18} />}
      mb="md"
      title={expired ? t("Project ended on {{day}}", { day }) : t("Project ends on {{day}}", { day })}
    >
      <Group justify="space-between" gap="md">
        <Text size="sm">{expired ? t("The project accepts no new jobs. Running jobs continue.") : t("From this date, the project accepts no new jobs. Running jobs continue.")}</Text>
        {rights.manages && project.extension === null && (
          <ChangeButton variant="default" size="sm" onClick={() => setExtending(true)} data-testid="more-time">
            {rights.admin ? t("Extend project") : t("Request extension")}
          </ChangeButton>
        )}
      </Group>
      {extending && <TimeModal project={project} admin={rights.admin} onClose={() => setExtending(false)} />}
    </Alert>
  );
}
