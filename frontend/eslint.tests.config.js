import globals from "globals";

/** For the programs of the tests, which run in Node.js and give functions to a page. */
export default [
  {
    files: ["tests/**/*.mjs"],
    languageOptions: { globals: { ...globals.node, document: "readonly", requestAnimationFrame: "readonly", window: "readonly" } },
    rules: { "no-undef": "error" },
  },
];
