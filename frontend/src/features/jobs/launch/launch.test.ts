import { describe, expect, it } from "vitest";
import type { ClusterNode, Template } from "@/api/types";
import { GIB } from "@/lib/units";
import { boundsOf, cpuChoices, durationChoices, gpuChoices, initialValues, isBare, localProblems, mapProblems, toJobFile } from "./launch";
import { PARAMETER, TEMPLATE } from "./test-template";

const template: Template = {
  ...TEMPLATE,
  parameters: [
    PARAMETER,
    { ...PARAMETER, name: "epochs", type: "integer", title: "Epochs", default: 10 },
    { ...PARAMETER, name: "note", type: "string", title: "Note", default: "" },
    { ...PARAMETER, name: "fast", type: "boolean", title: "Fast", default: true },
  ],
  resources: { ...TEMPLATE.resources, cpu: { default: 8, min: 1, max: 256 }, gpu: { default: { count: 1, type: "a100" }, max: 16 } },
};

const node = (change: Partial<ClusterNode>): ClusterNode => ({
  name: "n1",
  cluster: "local",
  state: "idle",
  reason: null,
  gres: [],
  features: [],
  partitions: [],
  address: null,
  power_w: null,
  cpu_power_w: null,
  scheduler_state: null,
  cpu_total: 4,
  cpu_used: 0,
  memory_total_bytes: 16 * GIB,
  memory_used_bytes: 0,
  gpus: [],
  seen_at: "2026-03-01T12:00:00Z",
  ...change,
});

const problem = (field: string, message: string, allowed: string | null = null) => ({ field, message, allowed, value: null });

describe("initialValues", () => {
  it("are the template's defaults limited to the largest node", () => {
    const values = initialValues(template, "vision", [node({}), node({ name: "n2", cpu_total: 2 })]);
    expect(values).toMatchObject({ cpu: 4, memoryBytes: 2 * GIB, gpuCount: 0, durationS: 14_400, project: "vision" });
    expect(values.parameters).toEqual({ script: "", epochs: 10, note: "", fast: true });
  });

  it("offers what the nodes have", () => {
    const bounds = boundsOf(template, [node({ gpus: [{ type: "a100", total: 4, used: 4 }] }), node({ name: "n2" })]);
    expect(bounds.cpu).toEqual({ min: 1, max: 4 });
    expect(bounds.nodes).toEqual({ min: 1, max: 2 });
    expect(bounds.memory).toEqual({ min: GIB, max: 16 * GIB });
    expect([bounds.gpuMax, bounds.gpuTypes]).toEqual([4, ["a100"]]);
  });

  it("work before node data is available", () => {
    expect(initialValues(template, "p", [])).toMatchObject({ cpu: 8, memoryBytes: 2 * GIB });
  });
});

describe("toJobFile", () => {
  const values = initialValues(template, "vision", [node({ gpus: [{ type: "a100", total: 4, used: 0 }] })]);

  it("uses the platform's syntax", () => {
    const file = toJobFile(template, { ...values, name: "  edsr ", parameters: { ...values.parameters, script: "a.py" } });
    expect(file).toEqual({
      type: "job",
      template: "train",
      name: "edsr",
      project: "vision",
      parameters: { script: "a.py", epochs: 10, note: "", fast: true },
      resources: { nodes: 1, cpu: 4, memory: "2G", gpu: "a100:1" },
      max_duration: "4h",
    });
  });

  it("omits empty fields", () => {
    const file = toJobFile(template, { ...values, parameters: { ...values.parameters, epochs: "" } });
    expect(file.parameters).toEqual({ note: "", fast: true });
    expect(file.name).toBe("Train");
  });

  it("carries any text unchanged", () => {
    const text = `"; rm -rf ~ #'\n$(x) 🦉`;
    const file = toJobFile(template, { ...values, parameters: { ...values.parameters, script: text } });
    expect(file.parameters?.script).toBe(text);
  });
});

describe("Slurm options", () => {
  const values = initialValues(template, "p", []);
  it("are omitted without a value", () => {
    expect(toJobFile(template, values)).not.toHaveProperty("slurm");
  });

  it("contain only the selected values", () => {
    const slurm = { partition: "debug", qos: null, constraint: " nvlink " };
    expect(toJobFile(template, { ...values, slurm }).slurm).toEqual({ partition: "debug", constraint: "nvlink" });
  });

  it("requests the fewest switches for several nodes only", () => {
    const placement = { compact: "require" as const, nodes: "", exclude: " gpu07 " };
    expect(toJobFile(template, { ...values, nodes: 2, placement })).toMatchObject({ placement: { compact: "require", exclude: "gpu07" } });
    expect(toJobFile(template, { ...values, nodes: 1, placement })).toHaveProperty("placement", { exclude: "gpu07" });
    expect(toJobFile(template, values)).not.toHaveProperty("placement");
  });
});

describe("image, environment and datasets", () => {
  const values = initialValues(template, "p", []);

  it("are omitted without a value", () => {
    const file = toJobFile(template, values);
    for (const part of ["image", "container", "environment", "datasets"]) expect(file).not.toHaveProperty(part);
  });

  it("include an image with its options, without an environment", () => {
    const environment = { modules: ["cuda"], kind: "venv" as const, python: "~/v", setup: "a" };
    const file = toJobFile(template, { ...values, image: "jupyter:1.1", environment, container: { runtime: "docker", writable: false, network: false } });
    expect(file.image).toBe("jupyter:1.1");
    expect(file.container).toEqual({ runtime: "docker", writable: false, network: false });
    expect(file).not.toHaveProperty("environment");
  });

  it("include the environment without an image", () => {
    const environment = { modules: ["cuda/12.6"], kind: "conda" as const, python: " train ", setup: "ulimit -n 4096\n\nexport A=1\n" };
    const file = toJobFile(template, { ...values, environment, container: { runtime: "docker", writable: true, network: true } });
    expect(file.environment).toEqual({ modules: ["cuda/12.6"], conda: "train", setup: ["ulimit -n 4096", "export A=1"] });
    expect(file).not.toHaveProperty("container");
  });

  it("use the template's image by default", () => {
    const inImage = { ...template, image: "jupyter" };
    const environment = { modules: ["cuda"], kind: "none" as const, python: "", setup: "" };
    expect([isBare(inImage, values), isBare(inImage, { image: "bare" }), isBare(template, values)]).toEqual([false, true, true]);
    expect(toJobFile(inImage, { ...values, environment })).not.toHaveProperty("environment");
    expect(toJobFile(inImage, { ...values, image: "bare", environment })).toMatchObject({ image: "bare", environment: { modules: ["cuda"] } });
  });

  it("names datasets with their versions", () => {
    expect(toJobFile(template, { ...values, datasets: ["div2k:1.0", "owt:2"] }).datasets).toEqual(["div2k:1.0", "owt:2"]);
  });

  it("have their problems at their fields", () => {
    const { fields, general } = mapProblems(
      [
        problem("image", "there is no image", "base"),
        problem("container.runtime", "refused here"),
        problem("datasets.1", "you may not read it"),
        problem("environment.venv", "is not a venv"),
        problem("environment.setup.0", "is empty"),
        problem("slurm.extra.0", "not allowed"),
      ],
      template,
    );
    expect(fields).toEqual({
      image: "There is no image. Allowed: base.",
      runtime: "Refused here.",
      datasets: "You may not read it.",
      python: "Is not a venv.",
      setup: "Is empty.",
    });
    expect(general).toEqual(["slurm.extra.0: Not allowed."]);
  });
});

describe("problems", () => {
  it("are assigned to their fields with the allowed values", () => {
    const { fields, general } = mapProblems(
      [
        problem("resources.cpu", "no node has so many", "1 to 4"),
        problem("body.max_duration", "too long."),
        problem("parameters.epochs", "must be at least 1"),
        problem("parameters.unknown", "is not a parameter"),
        problem("resources.gpu.count", "too many"),
        problem("", "nothing works"),
        problem("account", "mira has no Unix account."),
      ],
      template,
    );
    expect(fields).toEqual({
      cpu: "No node has so many. Allowed: 1 to 4.",
      duration: "Too long.",
      "parameters.epochs": "Must be at least 1.",
      gpu: "Too many.",
    });
    expect(general).toEqual(["parameters.unknown: Is not a parameter.", "Nothing works.", "mira has no Unix account."]);
  });

  it("of ranks are assigned to the template's parameters", () => {
    const distributed = { ranks_per_node_from: "ranks", backend_from: null };
    const wrong = [problem("distributed.ranks_per_node", "too many"), problem("distributed.backend", "needs a GPU")];
    const { fields, general } = mapProblems(wrong, { ...template, distributed });
    expect(fields).toEqual({ "parameters.ranks": "Too many." });
    expect(general).toEqual(["distributed.backend: Needs a GPU."]);
  });

  it("of the working folder are assigned to the template's parameter", () => {
    const wrong = [problem("workdir", "there is no folder /nope")];
    expect(mapProblems(wrong, { ...template, workdir_from: "folder" })).toEqual({ fields: { "parameters.folder": "There is no folder /nope." }, general: [] });
    expect(mapProblems(wrong, { ...template, workdir_from: null }).general).toEqual(["workdir: There is no folder /nope."]);
  });

  it("of an empty required field are detected locally", () => {
    const values = initialValues(template, "p", []);
    expect(Object.keys(localProblems(template, values))).toEqual(["parameters.script"]);
  });

  it("of an invalid time limit are detected locally", () => {
    const values = { ...initialValues(template, "p", []), durationTyped: "1:30" };
    expect(Object.keys(localProblems(template, values))).toContain("duration");
  });
});

describe("common choices", () => {
  it("are within the bounds and include the maximum", () => {
    expect(cpuChoices({ min: 1, max: 2 })).toEqual([1, 2]);
    expect(cpuChoices({ min: 1, max: 24 })).toEqual([1, 2, 4, 8, 16, 24]);
    expect(cpuChoices({ min: 1, max: 128 })).toEqual([1, 2, 4, 8, 16, 128]);
    expect(gpuChoices(0)).toEqual([0]);
    expect(gpuChoices(6)).toEqual([0, 1, 2, 4, 6]);
    expect(durationChoices(8 * 3_600, 14_400)).toEqual([3_600, 14_400, 28_800]);
  });
});
