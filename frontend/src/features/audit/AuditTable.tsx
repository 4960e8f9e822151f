import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { AuditEntry, Outcome } from "@/api/admin";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";
import { auditAction } from "./audit-actions";
import { type AuditTarget, shortTarget, targetOf } from "./audit-target";
import classes from "@/components/table.module.css";
import own from "@/components/Admin.module.css";

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
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t("Time")}</th>
            <th scope="col">{t("Actor")}</th>
            <th scope="col">{t("Action")}</th>
            <th scope="col">{t("Target")}</th>
            <th scope="col">{t("Result")}</th>
            <th scope="col">{t("Address")}</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.id} data-testid="audit-row">
              <td className={classes.nowrap}>
                <RelativeTime at={entry.time} />
              </td>
              <td data-label={t("Actor")}>
                <Actor entry={entry} />
              </td>
              <td data-label={t("Action")} className={own.action}>
                {onOpen === undefined ? (
                  <span title={entry.action}>{t(auditAction(entry.action))}</span>
                ) : (
                  <button
                    type="button"
                    className={own.linklike}
                    title={entry.action}
                    onClick={() => onOpen(entry)}
                    aria-label={t("Entry {{id}}: {{action}}", { id: entry.id, action: t(auditAction(entry.action)) })}
                  >
                    {t(auditAction(entry.action))}
                  </button>
                )}
              </td>
              <TargetCell target={targetOf(entry, jobNames)} />
              <td data-label={t("Result")}>
                <ToneBadge tone={outcomeLook(entry.outcome).tone}>{t(outcomeLook(entry.outcome).label)}</ToneBadge>
              </td>
              <td data-label={t("Address")} className={classes.dim}>
                {entry.address}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TargetCell({ target }: { target: AuditTarget | null }) {
  const { t } = useTranslation();
  if (target === null) return <td />;
  return (
    <td data-label={t("Target")}>
      <span className={own.object}>
        <Target target={target} />
      </span>
    </td>
  );
}

/** The target of an action by its name, with the start of its ID; the whole ID is in the tooltip. */
export function Target({ target }: { target: AuditTarget }) {
  const { name, id, rest, isJob } = target;
  return (
    <>
      {isJob && id !== null ? (
        <Link to="/jobs/$jobId" params={{ jobId: id }} className={own.anchor} preload={false}>
          {name}
        </Link>
      ) : (
        name !== null && (
          <span className={own.targetName} title={name}>
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
