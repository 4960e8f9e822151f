/**
 * Mantine's styles, of the components that the portal uses: as one file they are a third of the first load.
 * `import "virtual:mantine.css"` is what `@mantine/core/styles.css` would be without the others.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";

const NAME = "virtual:mantine.css";
const MODULES = fileURLToPath(new URL("node_modules/@mantine/", import.meta.url));
const SOURCES = fileURLToPath(new URL("src", import.meta.url));
const ALWAYS = ["default-css-variables", "baseline", "global"];

export function mantineCss(): Plugin {
  return {
    name: "mantine-css",
    enforce: "pre",
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load: (id) => (id === `\0${NAME}` ? neededCss() : undefined),
  };
}

function neededCss(): string {
  const whole = read("core/styles.css");
  // Rules of the same weight win by their order, so it is the order of the whole.
  const place = (name: string) => whole.indexOf(/\.m_[0-9a-f]+/.exec(read(`core/styles/${name}.css`))?.[0] ?? "");
  const components = [...usedStyles()].filter((name) => existsSync(join(MODULES, `core/styles/${name}.css`)));
  const names = [...ALWAYS, ...components.sort((a, b) => place(a) - place(b))];
  return names.map((name) => read(`core/styles/${name}.css`)).join("\n");
}

/** The style sheets of every component that is imported from `@mantine/core`, and of those they are made of. */
function usedStyles(): Set<string> {
  const exported = new Map<string, string>();
  for (const [, names = "", path = ""] of read("core/esm/index.mjs").matchAll(/import \{([^}]*)\} from "(\.\/.*?)"/g)) {
    for (const name of names.split(",")) exported.set(name.trim().replace(/^.* as /, ""), path);
  }
  const styles = new Set<string>();
  const seen = new Set<string>();
  const walk = (file: string) => {
    if (seen.has(file)) return;
    seen.add(file);
    const sheet = /([^/]+)\.module\.mjs$/.exec(file)?.[1];
    if (sheet !== undefined) styles.add(sheet);
    for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/from "(\.{1,2}\/[^"]*\.mjs)"/g)) walk(resolve(dirname(file), path));
  };
  for (const name of importedNames()) {
    const path = exported.get(name);
    if (path !== undefined) walk(resolve(MODULES, "core/esm", path));
  }
  return styles;
}

function importedNames(): Set<string> {
  const files = [...filesOf(SOURCES, /\.tsx?$/), ...filesOf(join(MODULES, "notifications/esm"), /\.mjs$/)];
  const names = new Set<string>();
  for (const file of files) {
    for (const [, list = ""] of readFileSync(file, "utf8").matchAll(/import \{([^}]*)\} from "@mantine\/core"/g)) {
      for (const name of list.split(",")) names.add(name.trim().replace(/ as .*$/, ""));
    }
  }
  return names;
}

function filesOf(folder: string, kind: RegExp): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => kind.test(name))
    .map((name) => join(folder, name));
}

function read(path: string): string {
  return readFileSync(join(MODULES, path), "utf8");
}
