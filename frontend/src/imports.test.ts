/** No modules import each other in a circle, types included; ESLint checks the direction between folders. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";

const SOURCES = import.meta.dirname;
const IMPORTED = /(?:from|import\()\s*"((?:@|\.)\/[^"]+)"/g;

function importGraph(): Map<string, string[]> {
  const names = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  const known = new Map(names.map((name) => [name.replace(/\.tsx?$/, ""), name]));
  known.set("i18n", "i18n/index.ts");
  return new Map(
    names.map((name) => {
      const specifiers = [...readFileSync(join(SOURCES, name), "utf8").matchAll(IMPORTED)].map((match) => match[1] ?? "");
      const targets = specifiers.map((specifier) => known.get(specifier.startsWith("@/") ? specifier.slice(2) : join(dirname(name), specifier)));
      return [name, targets.filter((target) => target !== undefined)];
    }),
  );
}

/** The first circle, as the path from a module to itself; null if there is none. */
function circleOf(graph: Map<string, string[]>): string[] | null {
  const done = new Set<string>();
  const visit = (name: string, path: readonly string[]): string[] | null => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    if (done.has(name)) return null;
    for (const target of graph.get(name) ?? []) {
      const circle = visit(target, [...path, name]);
      if (circle !== null) return circle;
    }
    done.add(name);
    return null;
  };
  for (const name of graph.keys()) {
    const circle = visit(name, []);
    if (circle !== null) return circle;
  }
  return null;
}

it("finds a circle", () => {
  expect(circleOf(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["b"]]]))).toEqual(["b", "c", "b"]);
});

it("has no circle of imports in the portal", () => {
  const graph = importGraph();
  expect(graph.get("main.tsx")).toContain("router.tsx");
  expect(circleOf(graph)).toBeNull();
});
