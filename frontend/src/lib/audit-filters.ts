/** The filters of the audit log as they stand in the address: whatever does not fit is left out. */
import type { AuditFilters } from "@/api/admin";

const OUTCOMES = ["allowed", "denied", "failed"] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

export function readAuditFilters(search: Record<string, unknown>): AuditFilters {
  const text = (name: string) => {
    const value = search[name];
    const found = typeof value === "string" || typeof value === "number" ? String(value).slice(0, 200) : "";
    return found === "" ? undefined : found;
  };
  const day = (name: string) => {
    const found = text(name);
    return found !== undefined && DAY.test(found) ? found : undefined;
  };
  return {
    actor: text("actor"),
    action: text("action"),
    object: text("object"),
    outcome: OUTCOMES.find((outcome) => outcome === search.outcome),
    from: day("from"),
    to: day("to"),
  };
}
