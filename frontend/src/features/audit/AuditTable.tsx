import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { AuditEntry, Outcome } from "@/api/admin";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";
import { auditAction } from "./audit-actions";
import { type AuditTarget, shortTarget, targetOf } from "./audit-target";
import classes from "@/components/Admin.module.css";

/** The labels are translation keys: `t(outcome.label)`. */
export const OUTCOMES: Record<Outcome, { label: string; tone: Tone }> = {
  allowed: { label: msg("Success"), tone: "good" },
  denied: { label: msg("Denied"), tone: "warn" },
  failed: { label: msg("Failed"), tone: "bad" },
};

export function outcomeLook(outcome: string): { label: string; tone: Tone } {
  return known(OUTCOMES, outcome, { label: outcome, tone: "neutral" });
}

interface Props {
  entries: readonly AuditEntry[];
  /** Names of jobs by ID. */
  jobNames: Readonly<Record<string, string>>;
  onOpen?: ((entry: AuditEntry) => void) | undefined;
}

export function AuditTable({ entries, jobNames, onOpen }: Props) {
  const { t } = useTranslation();
  const columns: Column<AuditEntry>[] = [
    { header: t("Time"), nowrap: true, cell: ({ time }) => <RelativeTime at={time} /> },
    { header: t("Actor"), cell: (entry) => <Actor entry={entry} /> },
    {
      header: t("Action"),
      className: classes.action,
      cell: (entry) =>
        onOpen === undefined ? (
          <span title={entry.action}>{t(auditAction(entry.action))}</span>
        ) : (
          <button
            type="button"
            className={classes.linklike}
            title={entry.action}
            onClick={() => onOpen(entry)}
            aria-label={t("Entry {{id}}: {{action}}", { id: entry.id, action: t(auditAction(entry.action)) })}
          >
            {t(auditAction(entry.action))}
          </button>
        ),
    },
    {
      header: t("Target"),
      cell: (entry) => {
        const target = targetOf(entry, jobNames);
        return (
          target && (
            <span className={classes.object}>
              <Target target={target} />
            </span>
          )
        );
      },
    },
    { header: t("Result"), cell: ({ outcome }) => <ToneBadge tone={outcomeLook(outcome).tone}>{t(outcomeLook(outcome).label)}</ToneBadge> },
    { header: t("Address"), dim: true, cell: ({ address }) => address },
  ];
  return <DataTable columns={columns} rows={entries} rowKey={({ id }) => id} rowTestId="audit-row" />;
}

/** The target of an action by its name, with the start of its ID; the whole ID is in the tooltip. */
export function Target({ target }: { target: AuditTarget }) {
  const { name, id, rest, isJob } = target;
  return (
    <>
      {isJob && id !== null ? (
        <Link to="/jobs/$jobId" params={{ jobId: id }} className={classes.anchor} preload={false}>
          {name}
        </Link>
      ) : (
        name !== null && (
          <span className={classes.targetName} title={name}>
            {name}
          </span>
        )
      )}{" "}
      {id !== null && (
        <Text span size="xs" c="dimmed" className="mono" title={id}>
          {[shortTarget(id), rest].filter(Boolean).join("/")}
        </Text>
      )}
    </>
  );
}

/** The user who acted, with the impersonated user. */
export function Actor({ entry }: { entry: AuditEntry }) {
  const { t } = useTranslation();
  if (entry.impersonator === null) return <strong>{entry.actor}</strong>;
  return (
    <span>
      <strong>{entry.impersonator}</strong>{" "}
      <Text span size="sm" c="dimmed">
        {t("as {{name}}", { name: entry.actor })}
      </Text>
    </span>
  );
}
