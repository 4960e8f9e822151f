/** The filters of the audit log from the URL's search parameters; invalid values are ignored. */
import type { AuditFilters } from "@/api/admin";

const OUTCOMES = ["allowed", "denied", "failed"] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

export function readAuditFilters(search: Record<string, unknown>): AuditFilters {
  const text = (name: string) => {
    const value = search[name];
    const content = typeof value === "string" || typeof value === "number" ? String(value).slice(0, 200) : "";
    return content === "" ? undefined : content;
  };
  const day = (name: string) => {
    const date = text(name);
    return date !== undefined && DAY.test(date) ? date : undefined;
  };
  return {
    actor: text("actor"),
    action: text("action"),
    object: text("object"),
    outcome: OUTCOMES.find((outcome) => outcome === search.outcome),
    from: day("from"),
    to: day("to"),
    preferences: search.preferences === true || search.preferences === "true" ? true : undefined,
  };
}
