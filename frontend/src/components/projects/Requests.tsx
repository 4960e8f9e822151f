import { Button, Group, Modal, NumberInput, Select, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { approveProject, declineProject, type Project, projectKeys, setProjectEnd } from "@/api/projects";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone } from "@/components/notify";
import { RelativeTime } from "@/components/Time";
import { dayAhead, dayInput, dayOf, fromDayInput } from "@/lib/projects";
import classes from "./Projects.module.css";

/** What waits for an administrator: new projects, and more time for old ones. */
export function Requests({ projects }: { projects: readonly Project[] }) {
  const { t } = useTranslation();
  const waiting = projects.filter((each) => each.state === "requested" || each.extension !== null);
  if (waiting.length === 0) return null;
  return (
    <section className="card" aria-labelledby="requests-title" style={{ marginBottom: 20 }} data-testid="requests">
      <Title order={2} size="h5" px="lg" pt="md" pb={4} id="requests-title">
        {t("Waiting for your answer")}
      </Title>
      {waiting.map((project) => (
        <Request key={project.name} project={project} />
      ))}
    </section>
  );
}

function Request({ project }: { project: Project }) {
  const { t } = useTranslation();
  const asks = project.extension;
  return (
    <div className={classes.request}>
      <div className={classes.requestText}>
        <Text>
          <Link to="/projects/$name" params={{ name: project.name }} className={classes.link}>
            {project.title || project.name}
          </Link>{" "}
          <Text span c="dimmed" size="sm">
            {asks === null
              ? t("new, asked for by {{who}}", { who: project.requested_by ?? "" })
              : t("more time until {{day}}, asked for by {{who}}", { day: dayOf(asks.until), who: asks.by })}{" "}
            <RelativeTime at={asks?.at ?? project.created_at} />
          </Text>
        </Text>
        <Text size="sm" c="dimmed">
          {asks === null ? (project.note ?? project.description) : asks.reason}
        </Text>
      </div>
      <AnswerButtons project={project} />
    </div>
  );
}

/** Approve or decline, each after a look at what that means. */
export function AnswerButtons({ project }: { project: Project }) {
  const { t } = useTranslation();
  const [asking, setAsking] = useState<"approve" | "decline" | null>(null);
  const extension = project.extension !== null && project.state !== "requested";
  return (
    <Group gap="xs" wrap="nowrap" justify="flex-end">
      <Button variant="default" size="sm" onClick={() => setAsking("decline")} data-testid="decline">
        {t("Decline")}
      </Button>
      <Button size="sm" onClick={() => setAsking("approve")} data-testid="approve">
        {extension ? t("Give more time") : t("Approve")}
      </Button>
      {asking === "approve" && <ApproveModal project={project} extension={extension} onClose={() => setAsking(null)} />}
      {asking === "decline" && <DeclineModal project={project} onClose={() => setAsking(null)} />}
    </Group>
  );
}

function useAnswer(said: string, onClose: () => void) {
  const cache = useQueryClient();
  return {
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(said);
      onClose();
    },
  };
}

function ApproveModal({ project, extension, onClose }: { project: Project; extension: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const [end, setEnd] = useState(dayInput(project.extension?.until ?? project.expires_at));
  const [hours, setHours] = useState<number | string>("");
  const [period, setPeriod] = useState<"month" | "total">("month");
  const name = project.name;
  const answer = useAnswer(extension ? t("{{name}} has more time.", { name }) : t("{{name}} is active.", { name }), onClose);
  const approve = useMutation({
    mutationFn: () =>
      extension
        ? setProjectEnd(name, "*", fromDayInput(end))
        : approveProject(name, {
            expires_at: fromDayInput(end),
            budget: typeof hours === "number" ? { gpu_hours: hours, period } : null,
          }),
    ...answer,
  });
  return (
    <Modal opened onClose={onClose} title={<strong>{extension ? t("More time for {{name}}", { name }) : t("Approve {{name}}", { name })}</strong>}>
      <Stack gap="md">
        <FormProblem error={approve.error} />
        <TextInput
          type="date"
          label={t("Ends on")}
          description={t("From then on it takes no new jobs. Empty: it has no end.")}
          value={end}
          min={dayAhead(new Date(), 1)}
          onChange={(event) => setEnd(event.currentTarget.value)}
        />
        {!extension && (
          <Group grow align="flex-end">
            <NumberInput
              label={t("Budget of GPU-hours")}
              placeholder={t("No budget")}
              value={hours}
              onChange={setHours}
              min={0}
              allowDecimal={false}
              thousandSeparator=" "
            />
            <PeriodSelect value={period} onChange={setPeriod} />
          </Group>
        )}
        <Button loading={approve.isPending} onClick={() => approve.mutate()} data-testid="approve-yes">
          {extension ? t("Give more time") : t("Approve")}
        </Button>
      </Stack>
    </Modal>
  );
}

export function PeriodSelect({ value, onChange }: { value: "month" | "total"; onChange: (period: "month" | "total") => void }) {
  const { t } = useTranslation();
  return (
    <Select
      label={t("Counted")}
      data={[
        { value: "month", label: t("each month anew") },
        { value: "total", label: t("in all") },
      ]}
      value={value}
      allowDeselect={false}
      onChange={(chosen) => onChange(chosen === "total" ? "total" : "month")}
    />
  );
}

function DeclineModal({ project, onClose }: { project: Project; onClose: () => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const answer = useAnswer(t("{{name}} is declined.", { name: project.name }), onClose);
  const decline = useMutation({ mutationFn: () => declineProject(project.name, reason.trim()), ...answer });
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Decline {{name}}", { name: project.name })}</strong>}>
      <Stack gap="md">
        <FormProblem error={decline.error} />
        <Textarea
          label={t("Why")}
          description={t("Whoever asked reads this.")}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          autosize
          minRows={2}
          maxLength={2_000}
          required
          data-autofocus
        />
        <Button color="red" loading={decline.isPending} disabled={reason.trim() === ""} onClick={() => decline.mutate()} data-testid="decline-yes">
          {t("Decline")}
        </Button>
      </Stack>
    </Modal>
  );
}
