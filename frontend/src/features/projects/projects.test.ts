import { describe, expect, it } from "vitest";
import type { Invitation, UsageRow } from "@/api/projects";
import type { Me } from "@/api/types";
import { dayInput, endsSoon, fromDayInput, isOpen, rightsIn, usageBars } from "./projects";

const NOW = new Date("2026-03-10T12:00:00Z");

function me(name: string, role: "user" | "admin" = "user"): Me {
  return { user: { name, role } } as Me;
}

describe("rightsIn", () => {
  const project = { members: ["ada", "bob"], managers: ["ada"] };
  it("distinguishes managers, members, administrators and others", () => {
    expect(rightsIn(project, me("ada"))).toEqual({ role: "manager", admin: false, manages: true });
    expect(rightsIn(project, me("bob"))).toEqual({ role: "member", admin: false, manages: false });
    expect(rightsIn(project, me("root", "admin"))).toEqual({ role: null, admin: true, manages: true });
    expect(rightsIn(project, me("eve"))).toEqual({ role: null, admin: false, manages: false });
  });
});

describe("endsSoon", () => {
  it("is true in the last 30 days of an active project", () => {
    expect(endsSoon({ state: "active", expires_at: "2026-04-01T00:00:00Z" }, NOW)).toBe(true);
    expect(endsSoon({ state: "active", expires_at: "2026-06-01T00:00:00Z" }, NOW)).toBe(false);
    expect(endsSoon({ state: "active", expires_at: null }, NOW)).toBe(false);
    expect(endsSoon({ state: "closed", expires_at: "2026-04-01T00:00:00Z" }, NOW)).toBe(false);
  });
});

describe("days", () => {
  it("are unchanged by a round trip", () => {
    expect(dayInput("2026-12-01T00:00:00Z")).toBe("2026-12-01");
    expect(fromDayInput("2026-12-01")).toBe("2026-12-01T00:00:00Z");
    expect([dayInput(null), fromDayInput("")]).toEqual(["", null]);
  });
});

describe("isOpen", () => {
  const invitation = { revoked_at: null, expires_at: "2026-03-11T00:00:00Z", uses: 0, max_uses: 1 } as Invitation;
  it("is false after expiry, the last use and revocation", () => {
    expect(isOpen(invitation, NOW)).toBe(true);
    expect(isOpen({ ...invitation, uses: 1 }, NOW)).toBe(false);
    expect(isOpen({ ...invitation, expires_at: "2026-03-10T11:00:00Z" }, NOW)).toBe(false);
    expect(isOpen({ ...invitation, revoked_at: "2026-03-10T11:00:00Z" }, NOW)).toBe(false);
  });
});

describe("usageBars", () => {
  const row = (user: string, types: Record<string, number>, gpu: number, cpu = 1): UsageRow => ({
    project: "vision", user, jobs: 1, cpu_hours: cpu, gpu_hours: gpu, gpu_hours_by_type: types, energy_j: null,
  });
  it("splits GPU-hours by type, largest first, untyped last", () => {
    const { unit, types, bars } = usageBars([row("ada", { a100: 2 }, 2), row("bob", { h200: 1 }, 4)]);
    expect([unit, types]).toEqual(["gpu", ["a100", "h200", ""]]);
    expect(bars).toEqual([{ user: "bob", total: 4, parts: [0, 1, 3] }, { user: "ada", total: 2, parts: [2, 0, 0] }]);
  });
  it("counts CPUs where no GPU was used", () => {
    expect(usageBars([row("ada", {}, 0, 5)])).toEqual({ unit: "cpu", types: [""], bars: [{ user: "ada", total: 5, parts: [5] }] });
  });
});
