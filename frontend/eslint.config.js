import js from "@eslint/js";
import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import globals from "globals";
import tseslint from "typescript-eslint";

/** The features in the order of their imports: each imports those before it only, so never in a circle. */
const FEATURES = ["images", "storage", "audit", "notifications", "datasets", "projects", "sweeps", "sessions", "jobs", "cluster", "account", "users", "platform"];

/** What composes the features; nothing below imports it. */
const ABOVE = ["@/pages/**", "@/shell/**", "@/router", "@/main"];

const DIALOGS = [{ name: "@mantine/core", importNames: ["Modal", "Drawer"], message: "Take @/components/Modal or Drawer, which return the focus." }];

const layer = (files, forbidden, message) => ({
  files,
  ignores: ["**/*.test.ts"],
  rules: {
    "no-restricted-imports": ["error", { paths: DIALOGS, patterns: [{ group: [...ABOVE, ...forbidden], message }, { group: ["../*"], message: "Import from another folder by @/." }] }],
  },
});

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/api/schema.d.ts"] },
  js.configs.recommended,
  {
    files: ["src/**/*.{ts,tsx}", "vite.config.ts", "mantine-css.ts", "first-load.ts"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      globals: globals.browser,
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      "@typescript-eslint/consistent-type-definitions": ["error", "interface"],
      "@typescript-eslint/only-throw-error": "off",
      "no-console": "error",
      eqeqeq: "error",
    },
  },
  {
    files: ["src/**/*.tsx"],
    extends: [jsxA11y.flatConfigs.strict, reactHooks.configs.flat.recommended],
  },
  layer(["src/{api,components,hooks,i18n,lib,live}/**"], ["@/features/**"], "What subjects share imports no feature."),
  layer(["src/features/**"], ["@/features/**"], "Add the folder to FEATURES in eslint.config.js."),
  ...FEATURES.map((name, at) =>
    layer([`src/features/${name}/**`], FEATURES.slice(at + 1).map((later) => `@/features/${later}/**`), "A feature imports those before it in FEATURES only."),
  ),
  { files: ["src/{pages,shell}/**"], rules: { "no-restricted-imports": ["error", { paths: DIALOGS }] } },
  { files: ["src/components/{Modal,Drawer}.tsx"], rules: { "no-restricted-imports": "off" } },
  {
    files: ["scripts/**/*.mjs", "public/**/*.js"],
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
  },
);
