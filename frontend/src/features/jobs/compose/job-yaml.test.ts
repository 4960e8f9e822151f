import { describe, expect, it } from "vitest";
import { envOf, envText, isBatchScript, jobOf, lineOfField, numberOrText, parseJob, setField } from "./job-yaml";

const FILE = `# My best run
name: edsr # for the paper
commands:
  - python train.py --lr 0.1
  - |
    echo done
resources: { cpu: 4, memory: 16G } # enough
# only here
x-mine:
  keep: [this, "as it is"]
`;

describe("a job file's text", () => {
  it("is parsed, or its error has a line", () => {
    expect(parseJob(FILE).value).toMatchObject({ name: "edsr", resources: { cpu: 4 }, "x-mine": { keep: ["this", "as it is"] } });
    expect(parseJob("").value).toEqual({});
    expect(parseJob("# nothing\n").value).toEqual({});
    const broken = parseJob("name: a\ncommands: [x\nname: b");
    expect(broken.value).toBeNull();
    expect(broken.problems[0]?.line).toBeGreaterThan(1);
    expect(parseJob("a: 1\na: 2").problems[0]?.line).toBe(2);
    expect(parseJob("- a")).toEqual({ value: null, problems: [{ line: 1, message: "A job file consists of fields such as `name: value`." }] });
    expect(parseJob("name: a\ncommands\ncpu: 1\n").problems).toContainEqual({ line: 2, message: "This is no `name: value`: the colon is missing, or the indentation is wrong." });
    expect(parseJob("name: a\n\tcpu: 1\n").problems[0]?.message).toBe("Lines are indented by blanks, not by tabs.");
    // As YAML 1.2 means it.
    expect(parseJob("a: no\nb: 010\nc: 1:30:00").value).toEqual({ a: "no", b: 10, c: "1:30:00" });
  });

  it("is sent with the numbers that JSON does not have", () => {
    const { value } = parseJob("notebook: { parameters: { most: .inf, sizes: [1, -.inf, .NaN], text: '.inf', off: null } }\nenv: { MOST: .inf }");
    expect(JSON.parse(JSON.stringify(jobOf(value ?? {})))).toEqual({
      notebook: { parameters: { most: { $float: "inf" }, sizes: [1, { $float: "-inf" }, { $float: "nan" }], text: ".inf", off: null } },
      env: { MOST: ".inf" },
    });
  });

  it("keeps numbers and truth values of env as they are written", () => {
    expect(parseJob("env: { A: 1.10, B: 1, C: True, D: text }").value).toEqual({ env: { A: "1.10", B: "1", C: "True", D: "text" } });
  });

  it("keeps comments and unknown fields when a field is set", () => {
    const text = setField(FILE, ["resources", "gpu"], "a100:2");
    expect(text).toContain("# My best run");
    expect(text).toContain("# for the paper");
    expect(text).toContain("# only here");
    expect(parseJob(text).value).toEqual({ ...parseJob(FILE).value, resources: { cpu: 4, memory: "16G", gpu: "a100:2" } });
    expect(setField(FILE, ["name"], "other")).toContain("name: other # for the paper");
  });

  it("creates missing parents and removes empty ones", () => {
    const text = setField("name: a\n", ["slurm", "partition"], "gpu");
    expect(parseJob(text).value).toEqual({ name: "a", slurm: { partition: "gpu" } });
    expect(setField(text, ["slurm", "partition"], "")).toBe("name: a\n");
    expect(parseJob(setField("resources:\n", ["resources", "cpu"], 2)).value).toEqual({ resources: { cpu: 2 } });
    expect(setField("name: a\n", ["name"], undefined)).toBe("");
    expect(setField("name: a\n", ["slurm", "qos"], "")).toBe("name: a\n");
    expect(parseJob(setField("", ["commands"], ["x\ny"])).value).toEqual({ commands: ["x\ny"] });
  });

  it("is unchanged while it is invalid", () => {
    expect(setField("a: [", ["name"], "x")).toBe("a: [");
  });

  it("is the same after any field is set and removed again", () => {
    for (const path of [["project"], ["resources", "gpu"], ["slurm", "qos"], ["environment", "modules"]]) {
      expect(parseJob(setField(setField(FILE, path, "v"), path, undefined)).value).toEqual(parseJob(FILE).value);
    }
  });

  it("has the line of a field or of its parent", () => {
    expect(lineOfField(FILE, "name")).toBe(2);
    expect(lineOfField(FILE, "body.commands.1")).toBe(5);
    expect(lineOfField(FILE, "commands.0")).toBe(4);
    expect(lineOfField(FILE, "resources.cpu")).toBe(7);
    expect(lineOfField(FILE, "resources.gpu")).toBe(7);
    expect(lineOfField(FILE, "project")).toBe(1);
  });
});

describe("parts of it", () => {
  it("are variables by the line", () => {
    expect(envOf("A=1\nB = x=y\nnothing\n=z")).toEqual({ A: "1", B: " x=y" });
    expect(envText({ A: "1", B: 2 })).toBe("A=1\nB=2");
    expect(envText(null)).toBe("");
  });

  it("are numbers where they can be", () => {
    expect(numberOrText(" 4 ")).toBe(4);
    expect(numberOrText("a100:4")).toBe("a100:4");
    expect(numberOrText("")).toBeUndefined();
  });

  it("distinguish a batch script from a job file", () => {
    expect(isBatchScript("#!/bin/bash\n")).toBe(true);
    expect(isBatchScript("# x\n#SBATCH -N 1\n")).toBe(true);
    expect(isBatchScript(FILE)).toBe(false);
  });
});
