import { Button, Group, NumberInput, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Lock } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Seen } from "@/api/client";
import {
  closeProject, describeProject, limitsQuery, type LimitsWish, type Project, type ProjectLimits, projectKeys, setGrantedLimits,
  setOwnLimits, setProjectBudget, setProjectEnd,
} from "@/api/projects";
import { Confirm } from "@/components/Confirm";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { LimitsForm } from "@/components/projects/LimitsForm";
import { PeriodSelect } from "@/components/projects/Requests";
import { TimeModal } from "@/components/projects/TimeModal";
import { TableSkeleton } from "@/components/TableSkeleton";
import { dayAhead, dayInput, dayOf, fromDayInput, type Rights } from "@/lib/projects";
import classes from "./Projects.module.css";

interface Props {
  seen: Seen<Project>;
  rights: Rights;
}

/** What managers set, and below it what only administrators grant. Each form begins anew when what it shows was changed, and only then. */
export function Settings({ seen, rights }: Props) {
  const { t } = useTranslation();
  const { value: project } = seen;
  const limits = useQuery(limitsQuery(project.name));
  return (
    <div className={classes.column}>
      <Panel id="describe" title={t("Title and description")}>
        <Describe key={JSON.stringify([project.title, project.description])} seen={seen} />
      </Panel>
      {limits.isPending && (
        <div className="card">
          <TableSkeleton rows={3} />
        </div>
      )}
      {limits.isError && !limits.data && <PageError compact error={limits.error} onRetry={() => void limits.refetch()} />}
      {limits.data && (
        <Panel id="own" title={t("Limits that you set")} about={t("Within what was granted; both hold. Empty: as granted.")}>
          <OwnLimits limits={limits.data.value} />
        </Panel>
      )}
      {rights.admin && limits.data && (
        <Panel id="granted" title={t("Granted limits")} about={t("Administrators only. Slurm has them after the next sync.")}>
          <Granted seen={limits.data} />
        </Panel>
      )}
      {rights.admin && (
        <Panel id="budget" title={t("Budget")} about={t("Administrators only. A project whose budget is used up takes no new jobs. Empty: no budget.")}>
          <BudgetForm key={JSON.stringify(project.budget)} seen={seen} />
        </Panel>
      )}
      <Panel id="end" title={t("End")}>
        <End key={project.expires_at} seen={seen} rights={rights} />
      </Panel>
      {(project.state === "active" || project.state === "expired") && (
        <Panel id="close" title={t("Close the project")} about={t("It takes no new jobs; those that wait or run stay. It can be reopened.")}>
          <Close project={project} />
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

/** Says that it was saved, and asks anew for what changed. */
function useSaved<Wish>(save: (wish: Wish) => Promise<unknown>, said: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: save,
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(said);
    },
  });
}

function Describe({ seen: { value: project, tag } }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const [form, setForm] = useState({ title: project.title, description: project.description });
  const save = useSaved(() => describeProject(project.name, tag, form), t("Saved."));
  const same = form.title === project.title && form.description === project.description;
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
        label={t("What it is about")}
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
        <Button disabled={same} loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="describe-save">
          {t("Save")}
        </Button>
      </Group>
    </div>
  );
}

function OwnLimits({ limits }: { limits: ProjectLimits }) {
  const { t } = useTranslation();
  const save = useSaved((wish: LimitsWish) => setOwnLimits(limits.project, wish), t("The limits are saved. Slurm holds to them once an administrator has brought it in line."));
  return (
    <LimitsForm key={JSON.stringify(limits.own)} limits={limits.own} within={limits.granted} busy={save.isPending} error={save.error} onSave={(wish) => save.mutate(wish)} />
  );
}

function Granted({ seen: { value: limits, tag } }: { seen: Seen<ProjectLimits> }) {
  const { t } = useTranslation();
  const save = useSaved((wish: LimitsWish) => setGrantedLimits(limits.project, tag, wish), t("The limits are granted."));
  return <LimitsForm key={tag} limits={limits.granted} busy={save.isPending} error={save.error} onSave={(wish) => save.mutate(wish)} />;
}

function BudgetForm({ seen: { value: project, tag } }: { seen: Seen<Project> }) {
  const { t } = useTranslation();
  const [gpu, setGpu] = useState<number | string>(project.budget?.gpu_hours ?? "");
  const [cpu, setCpu] = useState<number | string>(project.budget?.cpu_hours ?? "");
  const [period, setPeriod] = useState<"month" | "total">(project.budget?.period === "total" ? "total" : "month");
  const hours = (value: number | string) => (typeof value === "number" ? value : null);
  const save = useSaved(
    () =>
      setProjectBudget(project.name, tag, {
        gpu_hours: hours(gpu),
        cpu_hours: hours(cpu),
        period,
        since: period === "total" ? (project.budget?.since ?? null) : null,
      }),
    t("The budget is saved."),
  );
  return (
    <div className={classes.form}>
      <FormProblem error={save.error} />
      <div className={classes.limits}>
        <NumberInput label={t("GPU-hours")} placeholder={t("No budget")} value={gpu} onChange={setGpu} min={0} allowDecimal={false} thousandSeparator=" " />
        <NumberInput label={t("CPU-hours")} placeholder={t("No budget")} value={cpu} onChange={setCpu} min={0} allowDecimal={false} thousandSeparator=" " />
        <PeriodSelect value={period} onChange={setPeriod} />
      </div>
      <Group>
        <Button loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="budget-save">
          {t("Save the budget")}
        </Button>
      </Group>
    </div>
  );
}

function End({ seen: { value: project, tag }, rights }: Props) {
  const { t } = useTranslation();
  const [day, setDay] = useState(dayInput(project.expires_at));
  const [asking, setAsking] = useState(false);
  const save = useSaved(() => setProjectEnd(project.name, tag, fromDayInput(day)), t("The end is saved."));
  if (!rights.admin) {
    return (
      <Group justify="space-between">
        <Text size="sm">{project.expires_at === null ? t("It has no end.") : t("It ends on {{day}}", { day: dayOf(project.expires_at) })}</Text>
        {project.expires_at !== null && project.extension === null && (
          <Button variant="default" onClick={() => setAsking(true)}>
            {t("Ask for more time")}
          </Button>
        )}
        {asking && <TimeModal project={project} admin={false} onClose={() => setAsking(false)} />}
      </Group>
    );
  }
  return (
    <div className={classes.form}>
      <FormProblem error={save.error} />
      <Group align="flex-end">
        <TextInput
          type="date"
          label={t("Ends on")}
          description={t("From then on it takes no new jobs. Empty: it has no end.")}
          value={day}
          min={dayAhead(new Date(), 1)}
          onChange={(event) => setDay(event.currentTarget.value)}
        />
        <Button variant="default" disabled={day === dayInput(project.expires_at)} loading={save.isPending} onClick={() => save.mutate(undefined)} data-testid="end-save">
          {t("Save the end")}
        </Button>
      </Group>
    </div>
  );
}

function Close({ project }: { project: Project }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const close = useMutation({
    mutationFn: () => closeProject(project.name, reason.trim()),
    onSuccess: () => notifyDone(t("{{name}} is closed.", { name: project.name })),
    onError: (error) => notifyProblem(t("It stays open"), error),
    onSettled: () => {
      setAsking(false);
      void cache.invalidateQueries({ queryKey: projectKeys.all });
    },
  });
  return (
    <>
      <Button color="red" variant="outline" leftSection={<Lock size={15} />} onClick={() => setAsking(true)} data-testid="close">
        {t("Close …")}
      </Button>
      <Confirm
        opened={asking}
        title={t("Close {{name}}?", { name: project.name })}
        action={t("Close the project")}
        keep={t("Keep it open")}
        busy={close.isPending}
        onClose={() => setAsking(false)}
        onConfirm={() => close.mutate()}
      >
        <Stack gap="sm">
          {t("Nobody starts new jobs in it until it is reopened. What waits or runs goes on.")}
          <TextInput label={t("Why")} description={t("Members read this.")} value={reason} maxLength={2_000} onChange={(event) => setReason(event.currentTarget.value)} />
        </Stack>
      </Confirm>
    </>
  );
}
