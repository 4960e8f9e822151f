import { describe, expect, it } from "vitest";
import type { GpuCapacity } from "@/api/types";
import { freeGpusText, stepPath } from "./free-gpus";

const NOW = new Date("2026-03-01T12:00:00Z");
const at = (hours: number) => new Date(NOW.getTime() + hours * 3_600_000).toISOString();

function gpu(changes: Partial<GpuCapacity> = {}): GpuCapacity {
  return { type: "a100", total: 8, free: 0, used: 8, unavailable: 0, end_unknown: 0, waiting: 0, next_free_at: at(1.5), forecast: [{ at: at(0), free: 0 }, { at: at(3), free: 4 }, { at: at(6), free: 8 }, { at: at(20), free: 8 }], ...changes };
}

describe("stepPath", () => {
  it("steps up where jobs end, and extends to the edge", () => {
    expect(stepPath(gpu(), NOW, 120, 40)).toBe("M0 40 H30 V20 H60 V0 H120");
    expect(stepPath(gpu({ forecast: [{ at: at(0), free: 2 }] }), NOW, 120, 40)).toBe("M0 30 H120");
  });
});

describe("freeGpusText", () => {
  it("describes the expected availability", () => {
    expect(freeGpusText(gpu(), NOW)).toBe("next free within 1\u00a0h 30\u00a0min");
    expect(freeGpusText(gpu({ free: 2 }), NOW)).toBe("free now");
    expect(freeGpusText(gpu({ next_free_at: null }), NOW)).toBe("time unknown");
    expect(freeGpusText(gpu({ next_free_at: null, used: 0 }), NOW)).toBe("on unavailable nodes");
    expect(freeGpusText(gpu({ waiting: 3 }), NOW)).toContain("3");
  });
});
