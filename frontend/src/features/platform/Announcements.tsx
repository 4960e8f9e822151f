import { Group, MultiSelect, SegmentedControl, Text, Textarea } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Construction, Megaphone, Plus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import {
  adminKeys,
  allAnnouncementsQuery,
  type Announcement,
  changeAnnouncement,
  createAnnouncement,
  deleteAnnouncement,
  readAnnouncement,
  type Severity,
} from "@/api/admin";
import { projectsQuery } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import type { Column } from "@/components/table";
import { ToneBadge } from "@/components/ToneBadge";
import { useNow } from "@/hooks/use-now";
import { formatMoment, formatPeriod } from "@/lib/time";
import { LinkedText } from "./LinkedText";
import { MaintenanceCard } from "./MaintenanceCard";
import { PeriodFields } from "./PeriodFields";
import { fromField, SEVERITIES, severityLook, stageOf, toField } from "./severity";
import classes from "@/components/Admin.module.css";

/** Announcements to users, and maintenance. */
export function AnnouncementsPage() {
  const { t } = useTranslation();
  const query = useInfiniteQuery(allAnnouncementsQuery);
  const [editing, setEditing] = useState<Announcement | "new" | null>(null);
  const announcements = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageTitle title={t("Announcements and maintenance")} />
      <h2 className={classes.heading}>
        <Group gap={8}>
          <Construction size={17} aria-hidden /> {t("Maintenance")}
        </Group>
      </h2>
      <MaintenanceCard />
      <Group justify="space-between" className={classes.section} mb={10}>
        <h2 className={classes.heading} style={{ margin: 0 }}>
          <Group gap={8}>
            <Megaphone size={17} aria-hidden /> {t("Announcements")}
          </Group>
        </h2>
        <ChangeButton size="sm" leftSection={<Plus size={16} />} onClick={() => setEditing("new")} data-testid="announcement-new">
          {t("New announcement")}
        </ChangeButton>
      </Group>
      <QueryCard
        query={query}
        items={query.data && announcements}
        rows={3}
        empty={
          <EmptyState icon={Megaphone} title={t("No announcements")}>
            {t("Announcements are shown at the top of every page to the selected users for the selected period.")}
          </EmptyState>
        }
      >
        {(items) => <Rows announcements={items} onEdit={setEditing} />}
      </QueryCard>
      {editing !== null && <Editor announcement={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </>
  );
}

function Rows({ announcements, onEdit }: { announcements: readonly Announcement[]; onEdit: (announcement: Announcement) => void }) {
  const { t } = useTranslation();
  const now = useNow();
  const cache = useQueryClient();
  const [deleting, setDeleting] = useState<Announcement | null>(null);
  const remove = useMutation({
    mutationFn: deleteAnnouncement,
    onSuccess: () => notifyDone(t("Announcement deleted.")),
    onError: (error) => notifyProblem(t("Could not delete the announcement"), error),
    onSettled: () => {
      setDeleting(null);
      void cache.invalidateQueries({ queryKey: adminKeys.announcements });
    },
  });
  const stages = { current: t("active"), future: t("scheduled"), past: t("expired") };
  const columns: Column<Announcement>[] = [
    {
      header: t("Text"),
      cell: ({ severity, text }) => (
        <>
          <ToneBadge tone={severityLook(severity).tone}>{t(severityLook(severity).label)}</ToneBadge>
          <div className={classes.text} style={{ marginTop: 4 }}>
            <LinkedText>{text}</LinkedText>
          </div>
        </>
      ),
    },
    { header: t("Visible to"), cell: ({ projects }) => (projects.length === 0 ? t("all users") : projects.join(", ")) },
    {
      header: t("Display period"),
      cell: (each) => (
        <div>
          {stages[stageOf(each, now)]}
          <Text size="xs" c="dimmed">
            {each.ends_at === null ? t("from {{from}}", { from: formatMoment(new Date(each.starts_at)) }) : formatPeriod(new Date(each.starts_at), new Date(each.ends_at))}
          </Text>
        </div>
      ),
    },
  ];
  return (
    <>
      <DataTable
        columns={columns}
        rows={announcements}
        rowKey={({ id }) => id}
        rowTestId="announcement-row"
        rowProps={(each) => ({ style: { opacity: stageOf(each, now) === "past" ? 0.65 : 1 } })}
        actions={(each) => (
          <>
            <ChangeButton variant="subtle" size="compact-sm" onClick={() => onEdit(each)}>
              {t("Edit")}
            </ChangeButton>
            <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setDeleting(each)}>
              {t("Delete")}
            </ChangeButton>
          </>
        )}
      />
      <Confirm
        opened={deleting !== null}
        title={t("Delete this announcement?")}
        action={t("Delete")}
        busy={remove.isPending}
        onClose={() => setDeleting(null)}
        onConfirm={() => {
          if (deleting !== null) remove.mutate(deleting.id);
        }}
      >
        {deleting?.text}
      </Confirm>
    </>
  );
}

function Editor({ announcement, onClose }: { announcement: Announcement | null; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: projects } = useQuery(projectsQuery);
  const [form, setForm] = useState({
    text: announcement?.text ?? "",
    severity: announcement?.severity ?? ("info"),
    projects: announcement?.projects ?? [],
    from: toField(announcement?.starts_at ?? null),
    until: toField(announcement?.ends_at ?? null),
  });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  // The ETag detects changes by other administrators, so that saving does not overwrite them.
  const seen = useQuery({
    queryKey: adminKeys.edited("announcement", announcement?.id),
    queryFn: () => readAnnouncement(announcement?.id ?? ""),
    enabled: announcement !== null,
    staleTime: Infinity,
    gcTime: 0,
  });
  const save = useMutation({
    mutationFn: () => {
      const body = { text: form.text.trim(), severity: form.severity, projects: form.projects, ends_at: fromField(form.until) };
      const starts_at = fromField(form.from);
      if (announcement === null) return createAnnouncement({ ...body, starts_at });
      return changeAnnouncement(announcement.id, seen.data?.tag ?? "*", { ...body, ...(starts_at === null ? {} : { starts_at }) });
    },
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: adminKeys.announcements });
      // A new one appears as a banner.
      if (announcement !== null) notifyDone(t("Announcement updated."));
      onClose();
    },
  });
  return (
    <FormDialog
      title={announcement === null ? t("New announcement") : t("Edit announcement")}
      action={announcement === null ? t("Publish") : t("Save")}
      testId="announcement-save"
      size="lg"
      busy={save.isPending}
      disabled={form.text.trim() === "" || (announcement !== null && seen.data === undefined)}
      error={save.error}
      onClose={onClose}
      onSubmit={save.mutate}
    >
      <Textarea
        label={t("Text")}
        description={t("Plain text: what happens, who is affected, what to do.")}
        autosize
        minRows={3}
        maxLength={2_000}
        value={form.text}
        onChange={(event) => set({ text: event.currentTarget.value })}
        required
        data-autofocus
        data-testid="announcement-text"
      />
      <div>
        <Text size="sm" fw={600} mb={4}>
          {t("Severity")}
        </Text>
        <SegmentedControl
          fullWidth
          aria-label={t("Severity")}
          data={(Object.keys(SEVERITIES) as Severity[]).map((value) => ({ value, label: t(SEVERITIES[value].label) }))}
          value={form.severity}
          onChange={(severity) => set({ severity: severity })}
        />
        {form.severity === "critical" && (
          <Text size="xs" c="dimmed" mt={4}>
            {t("Critical announcements cannot be dismissed.")}
          </Text>
        )}
      </div>
      <MultiSelect
        label={t("Visible to members of")}
        placeholder={form.projects.length === 0 ? t("all users") : ""}
        data={projects?.items.map((project) => project.name) ?? []}
        limit={100}
        value={form.projects}
        onChange={(value) => set({ projects: value })}
        searchable
        clearable
      />
      <PeriodFields from={form.from} until={form.until} endless={t("Leave blank to show it until it is deleted.")} onChange={set} />
    </FormDialog>
  );
}
