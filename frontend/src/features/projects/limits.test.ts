import { describe, expect, it } from "vitest";
import type { ProjectLimits } from "@/api/projects";
import { lastMonths, limitAmount, limitRows } from "./limits";

const none = {
  max_gpus: null, max_gpus_by_type: {}, max_cpus: null, max_memory_bytes: null, max_nodes: null,
  max_jobs: null, max_submitted: null, max_wall_s: null, gpu_hours: null, qos: [],
};

function found(limits: object, use: object[]): ProjectLimits {
  return { project: "vision", limits: { ...none, ...limits }, members: [], use, as_of: null } as unknown as ProjectLimits;
}

describe("limits", () => {
  it("lists limits with their users, then unlimited usage", () => {
    const rows = limitRows(
      found({ max_gpus: 8, max_wall_s: 7200 }, [
        { limit: "max_cpus", used: 3, maximum: null, by_user: {}, summary: null },
        { limit: "max_gpus", used: 6, maximum: 8, by_user: { bob: 2, ada: 4 }, summary: null },
        { limit: "max_nodes", used: 0, maximum: null, by_user: {}, summary: null },
      ]),
    );
    expect(rows.map((row) => [row.title, row.most, row.used])).toEqual([
      ["GPUs", 8, 6],
      ["Maximum run time", 7200, null],
      ["CPUs", null, 3],
    ]);
    expect(rows[0]?.by).toEqual([["ada", 4], ["bob", 2]]);
    expect(rows[0]?.held).toBeNull();
  });

  it("shows a different limit in the scheduler", () => {
    const [row] = limitRows(found({ max_gpus_by_type: { h200: 4 } }, [{ limit: "max_gpus_by_type.h200", used: 1, maximum: 64, by_user: {}, summary: null }]));
    expect([row?.title, row?.most, row?.held]).toEqual(["h200 GPUs", 4, 64]);
  });

  it("formats amounts with their units", () => {
    expect(limitAmount("max_memory_bytes", 2 ** 31)).toBe("2\u00a0GiB");
    expect(limitAmount("max_wall_s", 7200)).toBe("2h");
    expect(limitAmount("max_gpus", 1000)).toBe("1,000");
  });
});

describe("months", () => {
  it("are named in UTC across a year", () => {
    expect(lastMonths(new Date("2026-01-31T23:30:00Z"), 3)).toEqual(["2026-01", "2025-12", "2025-11"]);
  });
});
