import { describe, expect, it } from "vitest";
import type { Template } from "@/api/types";
import { findPreset, renamedPreset, sortTemplates, withoutPreset, withPreset } from "./templates";

const template = (name: string, type: "job" | "session") => ({ name, title: name, type }) as Template;
const preset = (name: string, template: string, cpu = 1) => ({ name, file: { type: "job" as const, template, resources: { cpu } } });

it("shows pinned templates, then sessions, then jobs", () => {
  const all = [template("Batch", "job"), template("Jupyter", "session"), template("Train", "job"), template("Board", "session")];
  expect(sortTemplates(all, []).map(({ name }) => name)).toEqual(["Board", "Jupyter", "Batch", "Train"]);
  expect(sortTemplates(all, ["Train", "gone"]).map(({ name }) => name)).toEqual(["Train", "Board", "Jupyter", "Batch"]);
});

describe("presets", () => {
  const all = [preset("Long", "batch"), preset("Long", "train"), preset("Short", "batch")];

  it("have a name for each template", () => {
    expect(findPreset(all, "train", "Long")).toBe(all[1]);
    expect(findPreset(all, "train", "Short")).toBeUndefined();
  });

  it("are replaced in their place, renamed and removed alone", () => {
    expect(withPreset(all, preset("Long", "batch", 8)).map(({ file }) => file.resources?.cpu)).toEqual([8, 1, 1]);
    expect(withPreset(all, preset("New", "batch"))).toHaveLength(4);
    expect(renamedPreset(all, preset("Long", "train"), "Longer").map(({ name }) => name)).toEqual(["Long", "Longer", "Short"]);
    expect(withoutPreset(all, preset("Long", "batch"))).toEqual(all.slice(1));
  });
});
