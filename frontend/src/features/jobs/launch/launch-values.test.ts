import { describe, expect, it } from "vitest";
import type { JobFile, Template } from "@/api/types";
import { GIB } from "@/lib/units";
import { type Bounds, initialValues, type LaunchValues, toJobFile } from "./launch";
import { valuesOf } from "./launch-values";
import { PARAMETER, TEMPLATE } from "./test-template";

const template = {
  ...TEMPLATE,
  parameters: [
    PARAMETER,
    { ...PARAMETER, name: "epochs", type: "integer", title: "Epochs", default: 10 },
    { ...PARAMETER, name: "backend", type: "choice", title: "Backend", choices: ["a", "b"], default: "a" },
  ],
} satisfies Template;
const bounds: Bounds = { nodes: { min: 1, max: 8 }, cpu: { min: 1, max: 64 }, memory: { min: GIB, max: 256 * GIB }, gpuMax: 4, gpuTypes: ["a100"], durationMax: 86_400, durationOptional: false };
const start = initialValues(template, "own", []);
const read = (file: JobFile, within = bounds) => valuesOf(file, template, start, within, ["own", "vision"]);

describe("valuesOf", () => {
  it("returns the values that a form sent, and sends the same file again", () => {
    const values: LaunchValues = {
      ...start,
      name: "night",
      project: "vision",
      parameters: { script: "a.py", epochs: 30, backend: "b" },
      nodes: 2,
      cpu: 16,
      memoryBytes: 48 * GIB,
      gpuCount: 2,
      gpuType: "a100",
      durationS: 43_200,
      slurm: { partition: "gpu", qos: null, constraint: "" },
      placement: { compact: "prefer", nodes: "gpu[03-04]", exclude: "gpu07" },
      image: "torch:2",
      datasets: ["imagenet:2012"],
    };
    expect(read(toJobFile(template, values))).toEqual(values);
    const bare = { ...start, environment: { modules: ["cuda/12"], kind: "venv" as const, python: "~/v", setup: "a\nb" } };
    expect(read(toJobFile(template, bare))).toEqual(bare);
  });

  it("leaves amounts to the scheduler that neither the template nor the file requests", () => {
    const free = {
      ...template,
      resources: { ...template.resources, memory: { default: null, min: GIB, max: null }, max_duration: { default: null, max: null } },
    } as unknown as Template;
    const initial = initialValues(free, "own", []);
    const sent = toJobFile(free, initial);
    expect([initial.memoryBytes, initial.durationS]).toEqual([null, null]);
    expect("memory" in (sent.resources ?? {}) || "max_duration" in sent).toBe(false);
    expect(valuesOf(sent, free, initial, bounds, ["own"])).toEqual(initial);
    expect(valuesOf({ ...sent, resources: { memory: "3G" } }, free, initial, bounds, ["own"]).memoryBytes).toBe(3 * GIB);
  });

  it("reads amounts as the platform stores them", () => {
    expect(read({ type: "job", resources: { memory: "3G", gpu: { count: 1, type: "a100" } as never }, max_duration: "2h" })).toMatchObject({ memoryBytes: 3 * GIB, gpuCount: 1, gpuType: "a100", durationS: 7_200 });
  });

  it("keeps within what the cluster and the template have now", () => {
    const file: JobFile = {
      type: "job",
      project: "left",
      parameters: { epochs: "many", backend: "c", gone: 1 },
      resources: { cpu: 64, memory: "1T", gpu: "h100:8" },
      max_duration: "9d",
    };
    expect(read(file, { ...bounds, cpu: { min: 1, max: 8 } })).toMatchObject({
      project: "own",
      parameters: { script: "", epochs: 10, backend: "a" },
      cpu: 8,
      memoryBytes: 256 * GIB,
      gpuCount: 4,
      gpuType: null,
      durationS: 86_400,
    });
    expect(read(file).parameters).not.toHaveProperty("gone");
  });

  it("leaves the defaults where the file says nothing", () => {
    expect(read({ type: "job", template: "train" })).toEqual(start);
  });
});
