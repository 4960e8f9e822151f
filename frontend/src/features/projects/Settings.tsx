import { Group, NumberInput, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Lock } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Seen } from "@/api/client";
import {
  closeProject, describeProject, limitsQuery, type LimitsInput, type Project, type ProjectLimits, projectKeys, setGrantedLimits,
  type RetentionInput, setOwnLimits, setProjectBudget, setProjectEnd, setProjectRetention,
} from "@/api/projects";
import { meQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { RetentionForm } from "./RetentionForm";
import { TableSkeleton } from "@/components/TableSkeleton";
import { type LimitsApplied, limitsApplied, limitsSaved } from "./limits";
import { LimitsForm } from "./LimitsForm";
import { dayAhead, dayInput, dayOf, fromDayInput, type Rights } from "./projects";
import { PeriodSelect } from "./Requests";
import { TimeModal } from "./TimeModal";
import classes from "./Projects.module.css";

interface Props {
  seen: Seen<Project>;
  rights: Rights;
}

/** Settings of managers and, below, of administrators. Each form is reset only when its data has changed. */
export function Settings({ seen, rights }: Props) {
  const { t } = useTranslation();
  const { value: project } = seen;
  const { data: me } = useSuspenseQuery(meQuery);
  const applied = me.platform.limits_applied;
  const limits = useQuery(limitsQuery(project.name));
  return (
    <div className={classes.column}>
      <Panel id="describe" title={t("Title and description")}>
        <DescriptionForm key={JSON.stringify([project.title, project.description])} seen={seen} />
      </Panel>
      {limits.isPending && (
        <div className="card">
          <TableSkeleton rows={3} />
        </div>
      )}
      {limits.isError && !limits.data && <PageError compact error={limits.error} onRetry={() => limits.refetch()} />}
      {limits.data && (
        <Panel id="own" title={t("Project limits")} about={t("Cannot exceed the administrator's limits. Leave blank to inherit.")}>
          <OwnLimits limits={limits.data.value} applied={applied} />
        </Panel>
      )}
      {rights.admin && limits.data && (
        <Panel id="granted" title={t("Administrator limits")} about={`${t("Administrators only.")} ${limitsApplied(applied)}`}>
          <GrantedLimits seen={limits.data} applied={applied} />
        </Panel>
      )}
      {rights.admin && (
        <Panel id="budget" title={t("Budget")} about={t("Administrators only. A project with an exhausted budget accepts no new jobs. Leave blank for no budget.")}>
          <BudgetForm key={JSON.stringify(project.budget)} seen={seen} />
        </Panel>
      )}
      <Panel id="retention" title={t("Deletion of ended jobs")} about={t("Ended jobs are deleted after this time, with their logs, metrics and job folders.")}>
        <RetentionPanel key={JSON.stringify(project.retention)} seen={seen} />
      </Panel>
      <Panel id="end" title={t("End date")}>
        <EndDateForm key={project.expires_at} seen={seen} rights={rights} />
      </Panel>
      {(project.state === "active" || project.state === "expired") && (
        <Panel id="close" title={t("Close project")} about={t("A closed project accepts no new jobs. Pending and running jobs are kept. It can be reopened.")}>
          <CloseProject project={project} />
        </Panel>
      )}
    </div>
  );
}

function Panel({ id, title, about, children }: { id: string; title: string; about?: string; children: ReactNode }) {
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby={`${id}-title`}>
      <Title order={2} size="h5" mb={about === undefined ? "md" : 4} id={`${id}-title`}>
        {title}
      </Title>
      {about !== undefined && (
        <Text size="sm" c="dimmed" mb="md">
          {about}
        </Text>
      )}
      {children}
    </section>
  );
}

/** A mutation that shows a message when the change is saved and refetches the project. */
function useSave<Value>(save: (value: Value) => Promise<unknown>, message: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: save,
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(message);
    },
  });
}

function DescriptionForm({ seen: { value: project, tag } }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const [form, setForm] = useState({ title: project.title, description: project.description });
  const save = useSave(() => describeProject(project.name, tag, form), t("Saved."));
  const unchanged = form.title === project.title && form.description === project.description;
  return (
    <div className={classes.form}>
      <FormProblem error={save.error} />
      <TextInput
        label={t("Title")}
        value={form.title}
        maxLength={200}
        onChange={(event) => {
          const title = event.currentTarget.value;
          setForm((old) => ({ ...old, title }));
        }}
      />
      <Textarea
        label={t("Description")}
        value={form.description}
        maxLength={2_000}
        autosize
        minRows={2}
        onChange={(event) => {
          const description = event.currentTarget.value;
          setForm((old) => ({ ...old, description }));
        }}
      />
      <Group>
        <ChangeButton disabled={unchanged} loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="describe-save">
          {t("Save")}
        </ChangeButton>
      </Group>
    </div>
  );
}

function RetentionPanel({ seen: { value: project, tag } }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const save = useSave((times: RetentionInput) => setProjectRetention(project.name, tag, times), t("Saved."));
  return <RetentionForm project={project} busy={save.isPending} error={save.error} onSave={(times) => save.mutate(times)} />;
}

function OwnLimits({ limits, applied }: { limits: ProjectLimits; applied: LimitsApplied }) {
  const save = useSave((value: LimitsInput) => setOwnLimits(limits.project, value), limitsSaved(applied));
  return (
    <LimitsForm key={JSON.stringify(limits.own)} limits={limits.own} within={limits.granted} busy={save.isPending} error={save.error} onSave={(value) => save.mutate(value)} />
  );
}

function GrantedLimits({ seen: { value: limits, tag }, applied }: { seen: Seen<ProjectLimits>; applied: LimitsApplied }) {
  const save = useSave((value: LimitsInput) => setGrantedLimits(limits.project, tag, value), limitsSaved(applied));
  return <LimitsForm key={tag} limits={limits.granted} busy={save.isPending} error={save.error} onSave={(value) => save.mutate(value)} />;
}

function BudgetForm({ seen: { value: project, tag } }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const [gpu, setGpu] = useState<number | string>(project.budget?.gpu_hours ?? "");
  const [cpu, setCpu] = useState<number | string>(project.budget?.cpu_hours ?? "");
  const [period, setPeriod] = useState<"month" | "total">(project.budget?.period === "total" ? "total" : "month");
  const hours = (value: number | string) => (typeof value === "number" ? value : null);
  const save = useSave(
    () =>
      setProjectBudget(project.name, tag, {
        gpu_hours: hours(gpu),
        cpu_hours: hours(cpu),
        period,
        since: period === "total" ? (project.budget?.since ?? null) : null,
      }),
    t("Budget saved."),
  );
  return (
    <div className={classes.form}>
      <FormProblem error={save.error} />
      <div className={classes.limits}>
        <NumberInput label={t("GPU-hours")} placeholder={t("no budget")} value={gpu} onChange={setGpu} min={0} allowDecimal={false} thousandSeparator=" " />
        <NumberInput label={t("CPU-hours")} placeholder={t("no budget")} value={cpu} onChange={setCpu} min={0} allowDecimal={false} thousandSeparator=" " />
        <PeriodSelect value={period} onChange={setPeriod} />
      </div>
      <Group>
        <ChangeButton loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="budget-save">
          {t("Save budget")}
        </ChangeButton>
      </Group>
    </div>
  );
}

function EndDateForm({ seen: { value: project, tag }, rights }: Props) {
  const { t } = useTranslation();
  const [day, setDay] = useState(dayInput(project.expires_at));
  const [extending, setExtending] = useState(false);
  const save = useSave(() => setProjectEnd(project.name, tag, fromDayInput(day)), t("End date saved."));
  if (!rights.admin) {
    return (
      <Group justify="space-between">
        <Text size="sm">{project.expires_at === null ? t("No end date.") : t("Project ends on {{day}}", { day: dayOf(project.expires_at) })}</Text>
        {project.expires_at !== null && project.extension === null && (
          <ChangeButton variant="default" onClick={() => setExtending(true)}>
            {t("Request extension")}
          </ChangeButton>
        )}
        {extending && <TimeModal project={project} admin={false} onClose={() => setExtending(false)} />}
      </Group>
    );
  }
  return (
    <div className={classes.form}>
      <FormProblem error={save.error} />
      <Group align="flex-end">
        <TextInput
          type="date"
          label={t("End date")}
          description={t("From this date, the project accepts no new jobs. Leave blank for no end date.")}
          value={day}
          min={dayAhead(new Date(), 1)}
          onChange={(event) => setDay(event.currentTarget.value)}
        />
        <ChangeButton variant="default" disabled={day === dayInput(project.expires_at)} loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="end-save">
          {t("Save end date")}
        </ChangeButton>
      </Group>
    </div>
  );
}

function CloseProject({ project }: { project: Project }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [confirming, setConfirming] = useState(false);
  const [reason, setReason] = useState("");
  const close = useMutation({
    mutationFn: () => closeProject(project.name, reason.trim()),
    onSuccess: () => notifyDone(t("{{name}} closed.", { name: project.name })),
    onError: (error) => notifyProblem(t("The project was not closed"), error),
    onSettled: () => {
      setConfirming(false);
      void cache.invalidateQueries({ queryKey: projectKeys.all });
    },
  });
  return (
    <>
      <ChangeButton color="red" variant="outline" leftSection={<Lock size={15} />} onClick={() => setConfirming(true)} data-testid="close">
        {t("Close project")}
      </ChangeButton>
      <Confirm
        opened={confirming}
        title={t("Close {{name}}?", { name: project.name })}
        action={t("Close project")}
        keep={t("Cancel")}
        busy={close.isPending}
        onClose={() => setConfirming(false)}
        onConfirm={() => close.mutate()}
      >
        <Stack gap="sm">
          {t("No new jobs can be submitted to the project until it is reopened. Pending and running jobs continue.")}
          <TextInput label={t("Reason")} description={t("Shown to members.")} value={reason} maxLength={2_000} onChange={(event) => setReason(event.currentTarget.value)} />
        </Stack>
      </Confirm>
    </>
  );
}
