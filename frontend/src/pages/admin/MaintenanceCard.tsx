import { Button, Group, Skeleton, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { adminKeys, countsQuery, endMaintenance, type Maintenance, maintenanceQuery, readMaintenanceTag, setMaintenance } from "@/api/admin";
import { Confirm } from "@/components/Confirm";
import { FormModal } from "@/components/FormModal";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PeriodFields } from "@/components/PeriodFields";
import { ToneBadge } from "@/components/ToneBadge";
import { fromField } from "@/lib/severity";
import { formatMoment } from "@/lib/time";

/** Whether new work begins, and the switch for it. */
export function MaintenanceCard() {
  const query = useQuery(maintenanceQuery);
  return (
    <section className="card" style={{ padding: "18px 20px" }} data-testid="maintenance-card">
      {query.isPending && <Skeleton height={48} radius={8} />}
      {query.isError && !query.data && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && <Switchboard maintenance={query.data} />}
    </section>
  );
}

function Switchboard({ maintenance }: { maintenance: Maintenance }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: counts } = useQuery(countsQuery);
  const [planning, setPlanning] = useState(false);
  const [ending, setEnding] = useState(false);
  const { phase, starts_at, ends_at, message, created_by } = maintenance;
  const end = useMutation({
    mutationFn: endMaintenance,
    onSuccess: () => notifyDone(t("New work begins again.")),
    onError: (error) => notifyProblem(t("The maintenance was not ended"), error),
    onSettled: () => {
      setEnding(false);
      void cache.invalidateQueries({ queryKey: adminKeys.maintenance });
    },
  });
  const held = counts?.states.PENDING_SUBMIT ?? 0;
  return (
    <Group justify="space-between" gap="md" align="flex-start">
      <div style={{ flex: "1 1 300px" }}>
        <Group gap={10} mb={4}>
          <ToneBadge tone={phase === "off" ? "good" : phase === "on" ? "warn" : "active"} dot>
            {phase === "off" ? t("Off") : phase === "on" ? t("On") : t("Scheduled")}
          </ToneBadge>
          {phase !== "off" && (
            <Text size="sm">
              {starts_at !== null && formatMoment(new Date(starts_at))} – {ends_at === null ? t("until it is ended") : formatMoment(new Date(ends_at))}
            </Text>
          )}
        </Group>
        <Text size="sm" c="dimmed">
          {phase === "off"
            ? t("New work begins as usual. In a maintenance it is accepted and kept; what runs goes on, and everybody is told.")
            : phase === "on"
              ? t("New work is kept: {{count}} jobs wait for the end. What runs goes on.", { count: held })
              : t("Plans warn of it already. What has not begun by then waits until it is over.")}
        </Text>
        {phase !== "off" && (message !== "" || created_by !== null) && (
          <Text size="sm" mt={4}>
            {message} {created_by !== null && <Text span c="dimmed" size="sm">({created_by})</Text>}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {phase !== "off" && (
          <Button size="sm" onClick={() => setEnding(true)} data-testid="maintenance-end">
            {phase === "on" ? t("End it now") : t("Call it off")}
          </Button>
        )}
        <Button size="sm" variant={phase === "off" ? "filled" : "default"} onClick={() => setPlanning(true)} data-testid="maintenance-set">
          {phase === "off" ? t("Begin or schedule") : t("Change")}
        </Button>
      </Group>
      <Confirm
        opened={ending}
        title={phase === "on" ? t("End the maintenance?") : t("Call the maintenance off?")}
        action={phase === "on" ? t("End it now") : t("Call it off")}
        keep={t("Leave it")}
        busy={end.isPending}
        onClose={() => setEnding(false)}
        onConfirm={() => end.mutate()}
      >
        {t("What was kept begins, and nodes that were drained for it take work again.")}
      </Confirm>
      {planning && <Planner maintenance={maintenance} onClose={() => setPlanning(false)} />}
    </Group>
  );
}

function Planner({ maintenance, onClose }: { maintenance: Maintenance; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [form, setForm] = useState({ message: maintenance.message, from: "", until: "" });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  // What another administrator sets meanwhile is seen when this is saved, not overwritten.
  const seen = useQuery({ queryKey: adminKeys.edited("maintenance"), queryFn: readMaintenanceTag, staleTime: Infinity, gcTime: 0 });
  const save = useMutation({
    mutationFn: () =>
      setMaintenance(seen.data ?? "*", { message: form.message.trim(), starts_at: fromField(form.from), ends_at: fromField(form.until) }),
    onSuccess: (now) => {
      cache.setQueryData(maintenanceQuery.queryKey, now);
      notifyDone(now.phase === "on" ? t("Maintenance is on: new work is kept.") : t("The maintenance is scheduled."));
      onClose();
    },
  });
  return (
    <FormModal
      title={t("Maintenance")}
      action={form.from === "" ? t("Begin now") : t("Schedule it")}
      testId="maintenance-save"
      busy={save.isPending}
      disabled={seen.data === undefined}
      error={save.error ?? seen.error}
      onClose={onClose}
      onSubmit={save.mutate}
    >
      <TextInput
        label={t("Reason, shown to all users")}
        value={form.message}
        maxLength={500}
        onChange={(event) => set({ message: event.currentTarget.value })}
        data-autofocus
        data-testid="maintenance-message"
      />
      <PeriodFields from={form.from} until={form.until} endless={t("Empty: until it is ended.")} onChange={set} />
    </FormModal>
  );
}
