/** The target of an audited action: its name, and its ID where it has one. */
import type { AuditEntry } from "@/api/admin";

export interface AuditTarget {
  /** Null: only the ID is known. */
  name: string | null;
  id: string | null;
  /** What follows the ID, such as a node of the job. */
  rest: string;
  isJob: boolean;
}

/** IDs and hashes as the platform makes them. */
const ID = /^(?:\w{2}_)?(?:[0-9a-f]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** Null for an action without a target. */
export function targetOf({ object, details }: Pick<AuditEntry, "object" | "details">, jobNames: Readonly<Record<string, string>>): AuditTarget | null {
  const name = typeof details.name === "string" && details.name !== "" ? details.name : null;
  if (object === null) return name === null ? null : { name, id: null, rest: "", isJob: false };
  const parts = object.split("/");
  const index = parts.findIndex((part) => ID.test(part));
  const id = parts[index];
  if (id === undefined) return { name: object, id: null, rest: "", isJob: false };
  const jobName = jobNames[id];
  const above = parts.slice(0, index).join("/");
  return { name: jobName ?? name ?? (above === "" ? null : above), id, rest: parts.slice(index + 1).join("/"), isJob: jobName !== undefined };
}

/** The first characters of an ID. */
export function shortTarget(id: string): string {
  return id.slice(0, id.indexOf("_") + 9);
}
