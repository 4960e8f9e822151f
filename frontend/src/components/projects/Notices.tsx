import { Alert, Button, Group, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CalendarClock, CirclePause, Hourglass, Lock } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Project, projectKeys, reopenProject } from "@/api/projects";
import { notifyDone, notifyProblem } from "@/components/notify";
import { AnswerButtons } from "@/components/projects/Requests";
import { TimeModal } from "@/components/projects/TimeModal";
import { useSlowNow } from "@/hooks/use-now";
import { dayOf, endsSoon, type Rights } from "@/lib/projects";

/** What keeps the project from taking jobs, or soon will, and what can be done about it. */
export function Notices({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  const asks = project.extension;
  return (
    <>
      {project.state === "requested" && (
        <Alert color="orange" icon={<Hourglass size={18} />} mb="md" title={t("Waits for approval")}>
          <Group justify="space-between" gap="md">
            <Text size="sm">
              {rights.admin
                ? t("Asked for by {{who}}.", { who: project.requested_by ?? "" })
                : t("An administrator answers it. Until then it takes no jobs.")}{" "}
              {project.note}
            </Text>
            {rights.admin && <AnswerButtons project={project} />}
          </Group>
        </Alert>
      )}
      {project.state === "closed" && <Closed project={project} rights={rights} />}
      {(project.state === "expired" || endsSoon(project, now)) && <Ending project={project} rights={rights} />}
      {asks !== null && (
        <Alert color="indigo" icon={<CalendarClock size={18} />} mb="md" title={t("More time is asked for")}>
          <Group justify="space-between" gap="md">
            <Text size="sm">
              {t("{{who}} asks for time until {{day}}.", { who: asks.by, day: dayOf(asks.until) })} {asks.reason}
            </Text>
            {rights.admin && <AnswerButtons project={project} />}
          </Group>
        </Alert>
      )}
    </>
  );
}

function Closed({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const mayReopen = rights.admin || (rights.manages && project.closed_by !== "admin");
  const reopen = useMutation({
    mutationFn: () => reopenProject(project.name),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(t("{{name}} takes jobs again.", { name: project.name }));
    },
    onError: (error) => notifyProblem(t("It stays closed"), error),
  });
  return (
    <Alert color="gray" icon={<Lock size={18} />} mb="md" title={t("Closed")}>
      <Group justify="space-between" gap="md">
        <Text size="sm">
          {t("It takes no new jobs; what runs goes on.")} {project.note}
        </Text>
        {mayReopen && (
          <Button variant="default" size="sm" loading={reopen.isPending} onClick={() => reopen.mutate()} data-testid="reopen">
            {t("Reopen")}
          </Button>
        )}
      </Group>
    </Alert>
  );
}

function Ending({ project, rights }: { project: Project; rights: Rights }) {
  const { t } = useTranslation();
  const [asking, setAsking] = useState(false);
  const over = project.state === "expired";
  const day = project.expires_at === null ? "" : dayOf(project.expires_at);
  return (
    <Alert
      color={over ? "red" : "orange"}
      icon={<CirclePause size={18} />}
      mb="md"
      title={over ? t("It ended on {{day}}", { day }) : t("It ends on {{day}}", { day })}
    >
      <Group justify="space-between" gap="md">
        <Text size="sm">{over ? t("It takes no new jobs; what runs goes on.") : t("From then on it takes no new jobs; what runs goes on.")}</Text>
        {rights.manages && project.extension === null && (
          <Button variant="default" size="sm" onClick={() => setAsking(true)} data-testid="more-time">
            {rights.admin ? t("Give more time") : t("Ask for more time")}
          </Button>
        )}
      </Group>
      {asking && <TimeModal project={project} admin={rights.admin} onClose={() => setAsking(false)} />}
    </Alert>
  );
}
