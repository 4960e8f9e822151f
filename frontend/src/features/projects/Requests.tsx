import { Group, NumberInput, Select, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { approveProject, declineProject, pendingProjectsQuery, type Project, projectKeys, setProjectEnd } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone } from "@/components/notify";
import { RelativeTime } from "@/components/Time";
import { dayAhead, dayInput, dayOf, fromDayInput } from "./projects";
import classes from "./Projects.module.css";

/** Requests for an administrator: new projects and extensions. */
export function Requests() {
  const { t } = useTranslation();
  const pending = useQuery(pendingProjectsQuery).data?.items ?? [];
  if (pending.length === 0) return null;
  return (
    <section className="card" aria-labelledby="requests-title" style={{ marginBottom: 20 }} data-testid="requests">
      <Title order={2} size="h5" px="lg" pt="md" pb={4} id="requests-title">
        {t("Pending requests")}
      </Title>
      {pending.map((project) => (
        <Request key={project.name} project={project} />
      ))}
    </section>
  );
}

function Request({ project }: { project: Project }) {
  const { t } = useTranslation();
  const extension = project.extension;
  return (
    <div className={classes.request}>
      <div className={classes.requestText}>
        <Text>
          <Link to="/projects/$name" params={{ name: project.name }} className={classes.link}>
            {project.title || project.name}
          </Link>{" "}
          <Text span c="dimmed" size="sm">
            {extension === null
              ? t("new project, requested by {{who}}", { who: project.requested_by ?? "" })
              : t("extension until {{day}}, requested by {{who}}", { day: dayOf(extension.until), who: extension.by })}{" "}
            <RelativeTime at={extension?.at ?? project.created_at} />
          </Text>
        </Text>
        <Text size="sm" c="dimmed">
          {extension === null ? (project.note ?? project.description) : extension.reason}
        </Text>
      </div>
      <DecisionButtons project={project} />
    </div>
  );
}

/** Approve and decline buttons, each with a dialog. */
export function DecisionButtons({ project }: { project: Project }) {
  const { t } = useTranslation();
  const [dialog, setDialog] = useState<"approve" | "decline" | null>(null);
  const isExtension = project.extension !== null && project.state !== "requested";
  return (
    <Group gap="xs" wrap="nowrap" justify="flex-end">
      <ChangeButton variant="default" size="sm" onClick={() => setDialog("decline")} data-testid="decline">
        {t("Decline")}
      </ChangeButton>
      <ChangeButton size="sm" onClick={() => setDialog("approve")} data-testid="approve">
        {isExtension ? t("Extend project") : t("Approve")}
      </ChangeButton>
      {dialog === "approve" && <ApproveModal project={project} extension={isExtension} onClose={() => setDialog(null)} />}
      {dialog === "decline" && <DeclineModal project={project} onClose={() => setDialog(null)} />}
    </Group>
  );
}

function useDecision(message: string, onClose: () => void) {
  const cache = useQueryClient();
  return {
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(message);
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
  const callbacks = useDecision(extension ? t("{{name}} extended.", { name }) : t("{{name}} approved.", { name }), onClose);
  const approve = useMutation({
    mutationFn: () =>
      extension
        ? setProjectEnd(name, "*", fromDayInput(end))
        : approveProject(name, {
            expires_at: fromDayInput(end),
            budget: typeof hours === "number" ? { gpu_hours: hours, period } : null,
          }),
    ...callbacks,
  });
  return (
    <FormDialog
      title={extension ? t("Extend {{name}}", { name }) : t("Approve {{name}}", { name })}
      action={extension ? t("Extend project") : t("Approve")}
      testId="approve-yes"
      busy={approve.isPending}
      error={approve.error}
      onClose={onClose}
      onSubmit={approve.mutate}
    >
      <TextInput
        type="date"
        label={t("End date")}
        description={t("From this date, the project accepts no new jobs. Leave blank for no end date.")}
        value={end}
        min={dayAhead(new Date(), 1)}
        onChange={(event) => setEnd(event.currentTarget.value)}
      />
      {!extension && (
        <Group grow align="flex-end">
          <NumberInput
            label={t("GPU-hour budget")}
            placeholder={t("no budget")}
            value={hours}
            onChange={setHours}
            min={0}
            allowDecimal={false}
            thousandSeparator=" "
          />
          <PeriodSelect value={period} onChange={setPeriod} />
        </Group>
      )}
    </FormDialog>
  );
}

export function PeriodSelect({ value, onChange }: { value: "month" | "total"; onChange: (period: "month" | "total") => void }) {
  const { t } = useTranslation();
  return (
    <Select
      label={t("Budget period")}
      data={[
        { value: "month", label: t("Monthly") },
        { value: "total", label: t("Total") },
      ]}
      value={value}
      allowDeselect={false}
      onChange={(next) => onChange(next === "total" ? "total" : "month")}
    />
  );
}

function DeclineModal({ project, onClose }: { project: Project; onClose: () => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const callbacks = useDecision(t("{{name}} declined.", { name: project.name }), onClose);
  const decline = useMutation({ mutationFn: () => declineProject(project.name, reason.trim()), ...callbacks });
  return (
    <FormDialog
      title={t("Decline {{name}}", { name: project.name })}
      action={t("Decline")}
      color="red"
      testId="decline-yes"
      busy={decline.isPending}
      disabled={reason.trim() === ""}
      error={decline.error}
      onClose={onClose}
      onSubmit={decline.mutate}
    >
      <Textarea
        label={t("Reason")}
        description={t("Shown to the requester.")}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        autosize
        minRows={2}
        maxLength={2_000}
        required
        data-autofocus
      />
    </FormDialog>
  );
}
