import { Group, Skeleton, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { adminKeys, countsQuery, endMaintenance, type Maintenance, maintenanceQuery, readMaintenanceTag, setMaintenance } from "@/api/admin";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { ToneBadge } from "@/components/ToneBadge";
import { formatMoment } from "@/lib/time";
import { PeriodFields } from "./PeriodFields";
import { fromField } from "./severity";

/** Maintenance status with controls. */
export function MaintenanceCard() {
  const query = useQuery(maintenanceQuery);
  return (
    <section className="card" style={{ padding: "18px 20px" }} data-testid="maintenance-card">
      {query.isPending && <Skeleton height={48} radius={8} />}
      {query.isError && !query.data && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {query.data && <MaintenanceStatus maintenance={query.data} />}
    </section>
  );
}

function MaintenanceStatus({ maintenance }: { maintenance: Maintenance }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: counts } = useQuery(countsQuery);
  const [editing, setEditing] = useState(false);
  const [ending, setEnding] = useState(false);
  const { phase, starts_at, ends_at, message, created_by } = maintenance;
  const end = useMutation({
    mutationFn: endMaintenance,
    onSuccess: () => notifyDone(phase === "on" ? t("Maintenance ended.") : t("Maintenance cancelled.")),
    onError: (error) => notifyProblem(t("Could not end maintenance"), error),
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
              {starts_at !== null && formatMoment(new Date(starts_at))} – {ends_at === null ? t("until ended manually") : formatMoment(new Date(ends_at))}
            </Text>
          )}
        </Group>
        <Text size="sm" c="dimmed">
          {phase === "off"
            ? t("Jobs start normally. During maintenance, new jobs are held, running jobs continue, and all users are notified.")
            : phase === "on"
              ? t("{{count}} jobs are held until maintenance ends. Running jobs continue.", { count: held })
              : t("Job plans show a warning. Jobs that have not started by then are held until maintenance ends.")}
        </Text>
        {phase !== "off" && (message !== "" || created_by !== null) && (
          <Text size="sm" mt={4}>
            {message} {created_by !== null && <Text span c="dimmed" size="sm">({created_by})</Text>}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {phase !== "off" && (
          <ChangeButton size="sm" onClick={() => setEnding(true)} data-testid="maintenance-end">
            {phase === "on" ? t("End now") : t("Cancel maintenance")}
          </ChangeButton>
        )}
        <ChangeButton size="sm" variant={phase === "off" ? "filled" : "default"} onClick={() => setEditing(true)} data-testid="maintenance-set">
          {phase === "off" ? t("Start or schedule") : t("Edit")}
        </ChangeButton>
      </Group>
      <Confirm
        opened={ending}
        title={phase === "on" ? t("End maintenance?") : t("Cancel maintenance?")}
        action={phase === "on" ? t("End now") : t("Cancel maintenance")}
        keep={t("Keep maintenance")}
        busy={end.isPending}
        onClose={() => setEnding(false)}
        onConfirm={() => end.mutate()}
      >
        {t("Held jobs are submitted, and nodes drained for maintenance are resumed.")}
      </Confirm>
      {editing && <MaintenanceForm maintenance={maintenance} onClose={() => setEditing(false)} />}
    </Group>
  );
}

function MaintenanceForm({ maintenance, onClose }: { maintenance: Maintenance; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [form, setForm] = useState({ message: maintenance.message, from: "", until: "" });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  // The ETag detects changes by other administrators, so that saving does not overwrite them.
  const seen = useQuery({ queryKey: adminKeys.edited("maintenance"), queryFn: readMaintenanceTag, staleTime: Infinity, gcTime: 0 });
  const save = useMutation({
    mutationFn: () =>
      setMaintenance(seen.data ?? "*", { message: form.message.trim(), starts_at: fromField(form.from), ends_at: fromField(form.until) }),
    onSuccess: (saved) => {
      cache.setQueryData(maintenanceQuery.queryKey, saved);
      notifyDone(saved.phase === "on" ? t("Maintenance started. New jobs are held.") : t("Maintenance scheduled."));
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("Maintenance")}
      action={form.from === "" ? t("Start now") : t("Schedule")}
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
      <PeriodFields from={form.from} until={form.until} endless={t("Leave blank to end it manually.")} onChange={set} />
    </FormDialog>
  );
}
