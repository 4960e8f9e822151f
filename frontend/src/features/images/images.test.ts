import { describe, expect, it } from "vitest";
import type { Image } from "@/api/catalog";
import type { Template } from "@/api/types";
import { environmentLines, filterImages, filterPackages, fittingImages, imageBytes, imageLook, imageOf, imageReference, shortDigest } from "./images";

const artifact = (runtime: string, size_bytes: number) => ({ runtime, digest: `sha256:${"a".repeat(64)}`, size_bytes, path: null, mtime_ns: null });

const image = (change: Partial<Image>): Image => ({
  name: "jupyter",
  version: "1.0",
  description: "JupyterLab with TensorBoard",
  apps: {},
  needs: { cuda: null },
  env: {},
  artifacts: [artifact("apptainer", 400), artifact("docker", 900)],
  packages: [],
  state: "offered",
  projects: [],
  created_at: "2026-01-01T00:00:00Z",
  created_by: "root",
  verified_at: null,
  damage: null,
  ...change,
});

const lab = { lab: { kind: "jupyterhub", python: "/opt/python" } };
const session = { apps: [{ name: "lab" }] } as unknown as Template;
const batch = { apps: [] } as unknown as Template;
const names = (images: Image[]) => images.map(imageReference);

describe("fittingImages", () => {
  const all = [
    image({ apps: lab }),
    image({ version: "1.1", apps: lab, created_at: "2026-02-01T00:00:00Z" }),
    image({ version: "2.0", apps: lab, created_at: "2026-03-01T00:00:00Z", damage: "Its file is another." }),
    image({ version: "0.9", apps: lab, state: "retired" }),
    image({ name: "base" }),
    image({ name: "secret", apps: lab, projects: ["speech"] }),
  ];

  it("have the session's app, are available, and are allowed for the project", () => {
    expect(names(fittingImages(all, session, "vision"))).toEqual(["jupyter:1.0", "jupyter:1.1"]);
    expect(names(fittingImages(all, session, "speech"))).toEqual(["jupyter:1.0", "jupyter:1.1", "secret:1.0"]);
  });

  it("are more for a batch job", () => {
    expect(names(fittingImages(all, batch, "vision"))).toContain("base:1.0");
  });

  it("are resolved by name to the newest version", () => {
    const found = fittingImages(all, session, "vision");
    expect(imageOf(found, "jupyter")?.version).toBe("1.1");
    expect(imageOf(found, "jupyter:1.0")?.version).toBe("1.0");
    expect(imageOf(found, "jupyter:2.0")).toBeUndefined();
    expect(imageOf(found, "bare")).toBeUndefined();
  });
});

describe("lists", () => {
  it("are searched by all words, in any order and case", () => {
    const all = [image({}), image({ name: "base", description: "Bash and Python" }), image({ version: "0.9", state: "retired" })];
    expect(names(filterImages(all, "TensorBoard jupyter", false))).toEqual(["jupyter:1.0"]);
    expect(names(filterImages(all, "", false))).toEqual(["jupyter:1.0", "base:1.0"]);
    expect(names(filterImages(all, "0.9", true))).toEqual(["jupyter:0.9"]);
  });

  it("of packages are searched by name, version and source", () => {
    const bill = [
      { name: "numpy", version: "2.1.0", source: "python" },
      { name: "python3-numpy", version: "1.26", source: "debian" },
    ];
    expect(filterPackages(bill, "numpy")).toHaveLength(2);
    expect(filterPackages(bill, "numpy debian")).toEqual([bill[1]]);
    expect(filterPackages(bill, "torch")).toEqual([]);
  });
});

describe("labels", () => {
  it("show damage before availability", () => {
    expect(imageLook(image({})).label).toBe("Available");
    expect(imageLook(image({ state: "retired" })).label).toBe("Retired");
    expect(imageLook(image({ damage: "x" })).label).toBe("Damaged");
  });

  it("shorten digests and find sizes", () => {
    expect(shortDigest(`sha256:${"0123456789abcdef".repeat(4)}`)).toBe("sha256:0123456789ab…");
    expect(imageBytes(image({}))).toBe(400);
    expect(imageBytes(image({ artifacts: [] }))).toBe(0);
  });

  it("show only the specified parts of an environment", () => {
    expect(environmentLines({ modules: [], conda: null, venv: null, setup: [] })).toEqual([]);
    expect(environmentLines({ modules: ["cuda/12.6", "gcc"], conda: null, venv: "~/v", setup: ["a", "b"] })).toEqual([
      { name: "Modules", text: "cuda/12.6 gcc" },
      { name: "venv", text: "~/v" },
      { name: "Setup", text: "a\nb" },
    ]);
  });
});
