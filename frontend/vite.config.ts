import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { firstLoad } from "./first-load.ts";
import { mantineCss } from "./mantine-css.ts";

// `npm run dev` forwards the API to a running platform.
const api = process.env.AITNE_URL ?? "http://127.0.0.1:26001";

export default defineConfig({
  plugins: [react(), mantineCss(), firstLoad()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: {
    host: "127.0.0.1",
    port: 26000,
    proxy: { "/api": { target: api, changeOrigin: true } },
  },
  // The API puts another one into each page that it serves.
  html: { cspNonce: "NONCE-OF-THE-PAGE" },
  build: {
    target: "es2022",
    sourcemap: false,
    // The policy forbids inline scripts and data: fonts; small pictures stay files too.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "vendor", test: /node_modules\/(react|react-dom|scheduler|@tanstack\/(react-query|react-router|query-core|router-core|history|store|react-store)|i18next|react-i18next|openapi-fetch|@floating-ui)\// },
            // What many pages share comes in one file: a hundred small ones are a hundred questions.
            { name: "shared", test: /(@mantine\/core\/esm\/(core|utils)|@mantine\/hooks|lucide-react\/dist\/esm\/\w+\.mjs|\/src\/(api|lib|live|hooks|i18n))\//, minShareCount: 8 },
            { name: "icons", test: /lucide-react/, minShareCount: 3 },
          ],
        },
      },
    },
  },
  test: { environment: "node", include: ["src/**/*.test.ts"], setupFiles: ["src/i18n/setup-tests.ts"], restoreMocks: true },
});
