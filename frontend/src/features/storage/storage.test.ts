import { describe, expect, it } from "vitest";
import type { AreaFacts, Quota } from "@/api/catalog";
import { GIB } from "@/lib/units";
import { storageRows } from "./storage";

const quota = (used: number | null, limit: number | null, files: number | null = null, mostFiles: number | null = null): Quota => ({
  used_bytes: used === null ? null : used * GIB,
  limit_bytes: limit === null ? null : limit * GIB,
  used_files: files,
  limit_files: mostFiles,
});

const facts = (change: Partial<AreaFacts>): AreaFacts => ({
  area: { name: "home", kind: "user", path: "/home/mira", adapter: "posix", project: null, mount: null },
  available: true,
  writable: true,
  file_system: "ext4",
  total_bytes: 900 * GIB,
  free_bytes: 400 * GIB,
  user_quota: null,
  project_quota: null,
  striping: null,
  targets: [],
  problem: null,
  ...change,
});

const row = (change: Partial<AreaFacts>) => storageRows([facts(change)])[0];

describe("a storage area's row", () => {
  it("shows the quota where there is one, else the file system", () => {
    expect(row({ user_quota: quota(20, 50) })).toMatchObject({ used: 20 * GIB, total: 50 * GIB, text: "20\u00a0GiB of 50\u00a0GiB", warning: null });
    expect(row({})).toMatchObject({ used: 500 * GIB, total: 900 * GIB, text: "400\u00a0GiB of 900\u00a0GiB free", warning: null });
  });

  it("shows the quota that is nearest to its limit", () => {
    expect(row({ user_quota: quota(20, 50), project_quota: quota(900, 1_000) })).toMatchObject({ text: "900\u00a0GiB of 1000\u00a0GiB" });
  });

  it("warns from 90 % on", () => {
    expect(row({ user_quota: quota(44, 50) })?.warning).toBeNull();
    expect(row({ user_quota: quota(46, 50) })?.warning).toBe("92 % full, 4\u00a0GiB free.");
    expect(row({ user_quota: quota(51, 50) })?.warning).toBe("Storage is full. Writes fail.");
    expect(row({ user_quota: quota(1, 50, 95, 100) })?.warning).toMatch(/^95 of 100 files/);
  });

  it("ignores a quota without a limit", () => {
    expect(row({ user_quota: quota(20, null) })).toMatchObject({ text: "400\u00a0GiB of 900\u00a0GiB free", warning: null });
  });

  it("reports a missing or read-only folder", () => {
    expect(row({ available: false, problem: "/home is not mounted." })).toMatchObject({ used: null, text: "not found", warning: "/home is not mounted." });
    expect(row({ available: false })?.warning).toBe("/home/mira does not exist.");
    expect(row({ writable: false })?.warning).toBe("No write permission.");
  });

  it("names degraded storage targets", () => {
    const target = (name: string, state: string) => ({ name, state, total_bytes: null, free_bytes: null });
    expect(row({ targets: [target("1", "Online/Good"), target("2", "Offline/Good")] })?.warning).toBe("Degraded storage targets: 2.");
  });

  it("names the project", () => {
    expect(row({ area: { name: "project", kind: "project", path: "/p", adapter: "posix", project: "vision", mount: null } })?.title).toBe("project vision");
  });
});
