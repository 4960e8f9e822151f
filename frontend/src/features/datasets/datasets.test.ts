import { describe, expect, it } from "vitest";
import type { Dataset } from "@/api/catalog";
import { chooseDatasets, datasetLook, datasetPlace, filterDatasets, isReadable, readersText, splitReference } from "./datasets";

const dataset = (change: Partial<Dataset>): Dataset => ({
  name: "div2k",
  version: "1.0",
  description: "Photographs",
  licence: "",
  owner: "mira",
  path: "/data/div2k",
  size_bytes: 1,
  files: 1,
  manifest: "a".repeat(64),
  projects: [],
  created_at: "2026-01-01T00:00:00Z",
  verified_at: null,
  verified_by: null,
  damaged_files: null,
  retired: false,
  ...change,
});

describe("the selection", () => {
  it("contains one version of each dataset, the one selected last", () => {
    expect(chooseDatasets(["a:1", "b:1"], ["a:1", "b:1", "a:2"])).toEqual(["b:1", "a:2"]);
  });

  it("adds and removes datasets", () => {
    expect(chooseDatasets([], ["a:1"])).toEqual(["a:1"]);
    expect(chooseDatasets(["a:1"], ["a:1", "b:1"])).toEqual(["a:1", "b:1"]);
    expect(chooseDatasets(["a:1", "b:1"], ["b:1"])).toEqual(["b:1"]);
    expect(chooseDatasets(["a:1"], [])).toEqual([]);
  });
});

describe("read access", () => {
  it("depends on owner and project", () => {
    const granted = dataset({ projects: ["vision"] });
    expect(isReadable(granted, "anders", "vision")).toBe(true);
    expect(isReadable(granted, "anders", "speech")).toBe(false);
    expect(isReadable(granted, "mira", "speech")).toBe(true);
  });

  it("is described for users without it", () => {
    expect(readersText(dataset({ projects: ["vision"] }))).toBe("Only for jobs in project vision.");
    expect(readersText(dataset({ projects: ["a", "b"] }))).toBe("Only for jobs in projects a, b.");
    expect(readersText(dataset({}))).toBe("Only for jobs of the owner, mira.");
  });
});

describe("references and paths", () => {
  it("are split at the first colon", () => {
    expect(splitReference("div2k:1.0")).toEqual({ name: "div2k", version: "1.0" });
    expect(splitReference("div2k")).toEqual({ name: "div2k", version: null });
  });

  it("differ with and without a container", () => {
    expect(datasetPlace("div2k", false)).toBe("/datasets/div2k");
    expect(datasetPlace("div2k", true)).toBe("$AITNE_DATASETS/div2k");
  });
});

describe("lists", () => {
  it("exclude retired datasets and match every word", () => {
    const all = [dataset({}), dataset({ version: "0.9", retired: true }), dataset({ name: "speech", owner: "anders", description: "Read English" })];
    expect(filterDatasets(all, "", false).map((each) => each.version)).toEqual(["1.0", "1.0"]);
    expect(filterDatasets(all, "div2k", true)).toHaveLength(2);
    expect(filterDatasets(all, "english ANDERS", false).map((each) => each.name)).toEqual(["speech"]);
  });

  it("show damage first", () => {
    expect(datasetLook(dataset({})).label).toBe("Not verified");
    expect(datasetLook(dataset({ verified_at: "2026-01-02T00:00:00Z", damaged_files: 0 })).label).toBe("Verified");
    expect(datasetLook(dataset({ retired: true })).label).toBe("Retired");
    expect(datasetLook(dataset({ retired: true, damaged_files: 2 })).label).toBe("Damaged");
  });
});
