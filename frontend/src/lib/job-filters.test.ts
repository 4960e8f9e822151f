import { describe, expect, it } from "vitest";
import { columnsOf, DEFAULT_COLUMNS } from "@/features/jobs/table/job-columns";
import { FILTER_DEFAULTS, type JobFilters, readFilters, toSearch } from "./job-filters";
import { fromSearch, isFiltered, minuteOf, moreCount, period } from "./job-views";

describe("filters", () => {
  it("are read from the URL; invalid values are ignored", () => {
    expect(readFilters({ state: "failed", q: 7, all: "true", gpus: "2", sort: "gpus", order: "asc", from: "2026-01-31", array: false })).toMatchObject({
      state: "failed",
      q: "7",
      all: true,
      gpus: 2,
      sort: "gpus",
      order: "asc",
      from: "2026-01-31",
      array: false,
    });
    const none = readFilters({ state: "x", type: 1, origin: "inside", sort: "colour", from: "yesterday", gpus: -1, array: "yes", node: "" });
    expect(none).toMatchObject(FILTER_DEFAULTS);
    expect(isFiltered(none)).toBe(false);
    expect(moreCount(none)).toBe(0);
  });

  it("count as the user's only where the page does not set them", () => {
    const ofPage = { node: "node01", state: "running", all: true } as const;
    expect(isFiltered({ ...ofPage, sort: "started" }, ofPage)).toBe(false);
    expect(isFiltered({ ...ofPage, type: "session" }, ofPage)).toBe(true);
    expect(isFiltered(ofPage)).toBe(true);
  });

  it("select the user's own jobs unless all are requested", () => {
    expect(toSearch(FILTER_DEFAULTS, "ada")).toEqual({ owner: "ada", top_level: true });
    expect(toSearch({ all: true }, "ada")).toEqual({ top_level: true });
    expect(toSearch({ all: true, owner: "bob" }, "ada")).toEqual({ owner: "bob", top_level: true });
  });

  it("span whole days of the browser's time zone", () => {
    const search = toSearch({ from: "2026-01-31", to: "2026-01-31" }, "ada");
    expect(Date.parse(search.created_before ?? "") - Date.parse(search.created_from ?? "")).toBe(86_400_000);
    expect(new Date(search.created_from ?? "").getHours()).toBe(0);
  });

  it("are restored from a saved view", () => {
    const filters: JobFilters = {
      ...FILTER_DEFAULTS,
      state: "failed",
      type: "job",
      origin: "outside",
      q: "edsr",
      all: true,
      project: "vision",
      gpus: 0,
      gpu: "a100",
      array: true,
      from: "2025-12-31",
      to: "2026-02-28",
      sort: "duration",
      order: "asc",
    };
    const kept = JSON.parse(JSON.stringify(toSearch(filters, "ada"))) as Parameters<typeof fromSearch>[0];
    expect(fromSearch(kept, "duration", false, "ada")).toEqual({ ...filters, owner: undefined, template: undefined, image: undefined, node: undefined });
    expect(fromSearch(toSearch(FILTER_DEFAULTS, "ada"), "created", true, "ada")).toMatchObject({ all: false, owner: undefined });
  });

  it("include common periods", () => {
    const now = new Date(2026, 2, 1, 12);
    expect(period("today", now).from).toBe("2026-03-01");
    expect(period("week", now).from).toBe("2026-02-23");
    expect(period("last-year", now)).toEqual({ from: "2025-01-01", to: "2025-12-31" });
  });
});

describe("columns", () => {
  it("begin with the name, once, and ignore unknown names", () => {
    expect(columnsOf([], false).map((column) => column.name)).toEqual(DEFAULT_COLUMNS);
    expect(columnsOf([], true).map((column) => column.name)).toContain("owner");
    expect(columnsOf(["gpus", "name", "gone", "gpus", "id"], false).map((column) => column.name)).toEqual(["name", "gpus", "id"]);
  });
});

it("keep the minute at which jobs ran, and their partition", () => {
  const at = minuteOf(new Date(2026, 0, 31, 9, 5, 30).getTime() / 1000);
  expect(at).toBe("2026-01-31T09:05");
  const filters = readFilters({ at, partition: "gpu", all: true });
  expect(filters).toMatchObject({ at, partition: "gpu" });
  const search = toSearch(filters, "ada");
  expect(search).toMatchObject({ active_at: new Date(2026, 0, 31, 9, 5).toISOString(), partition: "gpu" });
  expect(fromSearch(search, "created", true, "ada")).toMatchObject({ at, partition: "gpu" });
  expect(readFilters({ at: "2026-99-99T09:05" }).at).toBeUndefined();
});
