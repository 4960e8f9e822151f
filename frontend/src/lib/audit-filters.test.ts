import { describe, expect, it } from "vitest";
import { readAuditFilters } from "@/lib/audit-filters";

describe("the audit log's filters", () => {
  it("take from the address what fits and nothing else", () => {
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
