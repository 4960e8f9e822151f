import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// `npm run dev` forwards the API to a running platform, or to dev/mock.mjs.
const api = process.env.AITNE_URL ?? "http://127.0.0.1:26001";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: {
    host: "127.0.0.1",
    port: 26000,
    proxy: { "/api": { target: api, changeOrigin: true } },
  },
  build: {
    target: "es2022",
    sourcemap: false,
    // The policy forbids inline scripts and data: fonts; small pictures stay files too.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { environment: "node", include: ["src/**/*.test.ts"], restoreMocks: true },
});
