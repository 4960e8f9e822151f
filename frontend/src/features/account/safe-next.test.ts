import { describe, expect, it } from "vitest";
import { needsFullNavigation, safeNext } from "./safe-next";

const ORIGIN = "http://portal.example:8000";

describe("safeNext", () => {
  it.each([
    ["/jobs?state=failed#x", "/jobs?state=failed#x"],
    ["/api/oauth/authorize?client_id=hub&state=a%2Fb", "/api/oauth/authorize?client_id=hub&state=a%2Fb"],
  ])("%s is followed", (next, path) => expect(safeNext(next, ORIGIN)).toBe(path));

  it.each([
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "/..//evil.example/",
    "javascript:alert(1)",
    "jobs",
    "/login?next=/login",
    "",
    null,
    undefined,
  ])("%j leads to the front page", (next) => expect(safeNext(next, ORIGIN)).toBe("/"));
});

it("loads the API's own pages from the server", () => {
  expect(needsFullNavigation("/api/oauth/authorize?x=1")).toBe(true);
  expect(needsFullNavigation("/apiary")).toBe(false);
});
