import { Alert, Button, Checkbox, Group, Menu, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Download, ScrollText, SearchX, ShieldAlert, ShieldCheck } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type AuditCheck, type AuditEntry, auditExport, type AuditFilters, auditQuery, checkAudit, type Outcome } from "@/api/admin";
import { EmptyState } from "@/components/EmptyState";
import { Modal } from "@/components/Modal";
import { notifyProblem } from "@/components/notify";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import { sourceTitle } from "@/lib/sources";
import { formatAbsolute } from "@/lib/time";
import { AUDIT_ACTIONS, auditAction } from "./audit-actions";
import { targetOf } from "./audit-target";
import { Actor, AuditTable, outcomeLook, OUTCOMES, Target } from "./AuditTable";
import classes from "@/components/Admin.module.css";

/** The names of an entry's details; others are shown as they are recorded. */
const DETAILS: Readonly<Record<string, string>> = {
  status: msg("HTTP status"),
  reason: msg("Reason"),
  source: msg("Identity source"),
  second_factor: msg("Second factor"),
  name: msg("Name"),
  scopes: msg("Scopes"),
  session: msg("Session"),
  token_created_by: msg("Token created by"),
};

/** Audit log with filters, export and verification. */
export function AuditPage() {
  const { t } = useTranslation();
  const filters = useSearch({ from: "/shell/admin/audit" });
  const query = useInfiniteQuery(auditQuery(filters));
  const [open, setOpen] = useState<AuditEntry | null>(null);
  const entries = query.data?.pages.flatMap((page) => page.items) ?? [];
  const jobNames = Object.assign({}, ...(query.data?.pages.map((page) => page.job_names) ?? [])) as Record<string, string>;
  const total = query.data?.pages[0]?.total;
  const filtered = JSON.stringify({ ...filters, preferences: undefined }) !== "{}";
  const check = useMutation({ mutationFn: checkAudit, onError: (error) => notifyProblem(t("Could not verify the audit log"), error) });
  return (
    <>
      <PageTitle title={t("Audit log")}>
        <Group gap="xs">
          <Button variant="default" size="sm" leftSection={<ShieldCheck size={16} />} loading={check.isPending} onClick={() => check.mutate()} data-testid="audit-verify">
            {t("Verify")}
          </Button>
          <Menu>
            <Menu.Target>
              <Button variant="default" size="sm" leftSection={<Download size={16} />}>
                {t("Export")}
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item component="a" href={auditExport(filters, "jsonl")} download>
                {t("JSON Lines (verifiable)")}
              </Menu.Item>
              <Menu.Item component="a" href={auditExport(filters, "csv")} download>
                {t("CSV (spreadsheet)")}
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </Group>
      </PageTitle>
      <div role="status">{check.data && <VerificationResult check={check.data} />}</div>
      <Filters filters={filters} />
      <p className={classes.note} role="status">
        {total !== undefined && t("{{count}} entries", { count: total })}
      </p>
      <QueryCard
        query={query}
        items={query.data && entries}
        empty={
          <EmptyState icon={filtered ? SearchX : ScrollText} title={filtered ? t("No matching entries") : t("No entries yet")}>
            {t("All changes requested by users are recorded with actor, address and result.")}
          </EmptyState>
        }
      >
        {(items) => <AuditTable entries={items} jobNames={jobNames} onOpen={setOpen} />}
      </QueryCard>
      {open && <EntryModal entry={open} jobNames={jobNames} onClose={() => setOpen(null)} />}
    </>
  );
}

function VerificationResult({ check }: { check: AuditCheck }) {
  const { t } = useTranslation();
  if (check.intact) {
    return (
      <Alert color="moon" icon={<ShieldCheck size={18} />} mb="md" title={t("{{count}} entries verified, no changes detected", { count: check.entries })}>
        {check.last_hash !== null && (
          <>
            {t("Hash of the last entry (keep a copy outside the platform):")} <span className={classes.value}>{check.last_hash}</span>
          </>
        )}
      </Alert>
    );
  }
  return (
    <Alert color="red" icon={<ShieldAlert size={18} />} mb="md" title={t("Entry {{id}} is invalid", { id: check.broken_entry })}>
      {check.problem} {t("{{count}} entries before it are valid.", { count: check.entries })}
    </Alert>
  );
}

function Filters({ filters }: { filters: AuditFilters }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/admin/audit" });
  const set = (change: AuditFilters) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const names = Object.keys(AUDIT_ACTIONS);
  const actions = [...names, ...(filters.action === undefined || names.includes(filters.action) ? [] : [filters.action])]
    .map((value) => ({ value, label: t(auditAction(value)) }))
    .sort((a, b) => a.label.localeCompare(b.label));
  return (
    <div className={classes.filters} role="search">
      <FilterField label={t("Actor")} value={filters.actor} onChange={(actor) => set({ actor })} />
      <Select
        label={t("Action")}
        placeholder={t("Any action")}
        clearable
        searchable
        data={actions}
        comboboxProps={{ width: 280, position: "bottom-start" }}
        value={filters.action ?? null}
        onChange={(action) => set({ action: action ?? undefined })}
        nothingFoundMessage={t("No matching entries")}
        data-testid="audit-action"
      />
      <FilterField label={t("Target")} value={filters.object} onChange={(object) => set({ object })} />
      <Select
        label={t("Result")}
        placeholder={t("Any")}
        clearable
        data={(Object.keys(OUTCOMES) as Outcome[]).map((value) => ({ value, label: t(OUTCOMES[value].label) }))}
        value={filters.outcome ?? null}
        onChange={(outcome) => set({ outcome: (outcome ?? undefined) })}
      />
      <TextInput type="date" label={t("Since")} value={filters.from ?? ""} onChange={(event) => set({ from: event.currentTarget.value || undefined })} />
      <TextInput type="date" label={t("Until")} value={filters.to ?? ""} onChange={(event) => set({ to: event.currentTarget.value || undefined })} />
      <Checkbox
        label={t("Show preferences")}
        checked={filters.preferences === true}
        onChange={(event) => set({ preferences: event.currentTarget.checked || undefined })}
        mb={8}
        data-testid="audit-preferences"
      />
    </div>
  );
}

interface FilterFieldProps {
  label: string;
  placeholder?: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

function FilterField({ label, placeholder, value, onChange }: FilterFieldProps) {
  const [text, setText] = useState(value ?? "");
  const changeDebounced = useDebouncedCallback(onChange, 300);
  return (
    <TextInput
      label={label}
      placeholder={placeholder}
      value={text}
      spellCheck={false}
      autoCapitalize="none"
      onChange={(event) => {
        setText(event.currentTarget.value);
        changeDebounced(event.currentTarget.value.trim() || undefined);
      }}
    />
  );
}

function detailText(name: string, value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value);
  return name === "source" ? sourceTitle(value) : value;
}

function EntryModal({ entry, jobNames, onClose }: { entry: AuditEntry; jobNames: Readonly<Record<string, string>>; onClose: () => void }) {
  const { t } = useTranslation();
  const target = targetOf(entry, jobNames);
  const labelOf = (name: string) => t(known(DETAILS, name, name));
  const facts: [string, React.ReactNode][] = [
    [t("Time"), formatAbsolute(new Date(entry.time))],
    [t("Actor"), <Actor key="actor" entry={entry} />],
    [t("Operation"), <span key="operation" className={classes.value}>{entry.action}</span>],
    [t("Target"), target === null ? null : <Target key="target" target={target} />],
    [t("Result"), t(outcomeLook(entry.outcome).label)],
    [t("Address"), entry.address],
    ...Object.entries(entry.details).map(([name, value]): [string, React.ReactNode] => [labelOf(name), detailText(name, value)]),
    [t("Hash"), <span key="hash" className={classes.value}>{entry.hash}</span>],
    [t("Previous hash"), <span key="previous" className={classes.value}>{entry.previous}</span>],
  ];
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Entry {{id}}: {{action}}", { id: entry.id, action: t(auditAction(entry.action)) })}</strong>}>
      <dl className={classes.facts}>
        {facts
          .filter(([, value]) => value !== null)
          .map(([name, value]) => (
            <div key={name} style={{ display: "contents" }}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </Modal>
  );
}
