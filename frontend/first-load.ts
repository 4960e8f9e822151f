/** Ends the build when what the front page needs at first has grown too large for a bad line. */
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** Compressed, of scripts and styles. */
export const MOST_BYTES = 300_000;

/** Besides the entry: what is fetched for the front page by itself. */
const AT_FIRST = ["/src/pages/Dashboard.tsx"];

export function firstLoad(): Plugin {
  return {
    name: "first-load",
    apply: "build",
    generateBundle(_, bundle) {
      const files = new Set<string>();
      const add = (name: string) => {
        const chunk = bundle[name];
        if (files.has(name) || chunk?.type !== "chunk") return;
        files.add(name);
        chunk.viteMetadata?.importedCss.forEach((css) => files.add(css));
        chunk.imports.forEach(add);
      };
      for (const [name, chunk] of Object.entries(bundle)) {
        if (chunk.type !== "chunk") continue;
        const page = chunk.facadeModuleId ?? "";
        if (chunk.isEntry || AT_FIRST.some((path) => page.endsWith(path))) add(name);
      }
      const bytes = [...files].reduce((sum, name) => sum + sizeOf(bundle[name]), 0);
      const kilobytes = `${(bytes / 1000).toFixed(0)} kB of ${MOST_BYTES / 1000} kB`;
      if (bytes > MOST_BYTES) {
        this.error(`The first load is ${kilobytes} compressed. Fetch by lazy import what the front page does not show.`);
      }
      this.info(`The first load is ${kilobytes} compressed, in ${files.size} files.`);
    },
  };
}

interface Output {
  type: "chunk" | "asset";
  code?: string;
  source?: string | Uint8Array;
}

function sizeOf(file: Output | undefined): number {
  return gzipSync(file?.code ?? file?.source ?? "").length;
}
