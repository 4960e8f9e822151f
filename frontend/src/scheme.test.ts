import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";

const SCRIPT = readFileSync(new URL("../public/scheme.js", import.meta.url), "utf8");

/** A page whose script has run, on a system of this scheme. */
function pageWith(wish: string | null, dark: boolean) {
  const attributes: Record<string, string> = {};
  const system = new EventTarget();
  const media = Object.assign(system, { matches: dark });
  const page = {
    window: { localStorage: { getItem: () => wish }, matchMedia: () => media },
    document: { documentElement: { setAttribute: (name: string, value: string) => (attributes[name] = value) } },
  };
  runInNewContext(SCRIPT, page);
  return {
    scheme: () => attributes["data-mantine-color-scheme"],
    systemBecomes: (scheme: "light" | "dark") => {
      media.matches = scheme === "dark";
      media.dispatchEvent(new Event("change"));
    },
  };
}

it("follows the system's scheme before the portal is loaded", () => {
  const page = pageWith(null, false);
  expect(page.scheme()).toBe("light");
  page.systemBecomes("dark");
  expect(page.scheme()).toBe("dark");
});

it("keeps the scheme that the user has chosen", () => {
  const page = pageWith("light", true);
  expect(page.scheme()).toBe("light");
  page.systemBecomes("dark");
  expect(page.scheme()).toBe("light");
});
