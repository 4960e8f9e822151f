import { describe, expect, it } from "vitest";
import { readAuditFilters } from "./audit-filters";

describe("the audit log's filters", () => {
  it("are read from the URL; invalid values are ignored", () => {
    expect(readAuditFilters({ actor: "ada", object: 7, outcome: "denied", from: "2026-03-01", to: "soon", x: 1 })).toEqual({
      actor: "ada",
      action: undefined,
      object: "7",
      outcome: "denied",
      from: "2026-03-01",
      to: undefined,
    });
    expect(Object.values(readAuditFilters({ outcome: "perhaps", actor: "" })).filter(Boolean)).toEqual([]);
  });
});
