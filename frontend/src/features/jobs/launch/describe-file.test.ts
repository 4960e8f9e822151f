import { describe, expect, it } from "vitest";
import type { JobFile } from "@/api/types";
import { describeFile, gpuOf } from "./describe-file";

describe("a job file in a line", () => {
  it("describes the requested resources in every notation", () => {
    expect(describeFile({ resources: { gpu: "a100:1", cpu: 4, memory: "16G" }, max_duration: "4h" } as JobFile)).toBe("1 × a100 · 4 CPUs · 16\u00a0GiB · 4h");
    expect(describeFile({ resources: { gpu: { count: 2, type: null }, nodes: 2, memory: 1024 ** 3 }, max_duration: 5400 } as unknown as JobFile)).toBe("2 nodes · 2 GPUs · 1\u00a0GiB · 1h30m");
    expect(describeFile({ resources: { tasks_per_node: 4, cpus_per_task: 2 } } as JobFile)).toBe("8 CPUs");
    expect(describeFile({} as JobFile)).toBe("");
  });

  it("reads GPUs in every spelling", () => {
    expect([gpuOf(2), gpuOf("2"), gpuOf("a100:2"), gpuOf(null), gpuOf("x")]).toEqual([{ count: 2 }, { count: 2 }, { count: 2, type: "a100" }, { count: 0 }, { count: 0 }]);
  });
});
