import { MantineProvider } from "@mantine/core";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Parameter } from "@/api/types";
import { ParameterField } from "./ParameterField";
import { PARAMETER } from "./test-template";

function render(change: Partial<Parameter>): string {
  const parameter = { ...PARAMETER, ...change };
  const field = createElement(ParameterField, { parameter, value: "", error: undefined, onChange: () => undefined });
  return renderToStaticMarkup(createElement(MantineProvider, null, field));
}

it.each(["path", "string", "text", "integer", "number"] as const)("marks a required %s for readers and for screen readers", (type) => {
  const html = render({ type });
  expect(html).toContain('required=""');
  expect(html).toMatch(/<span[^>]* aria-hidden="true"> \*<\/span>/);
});

it("does not mark a parameter with a default, nor a switch", () => {
  for (const html of [render({ default: "train.py" }), render({ type: "boolean" })]) {
    expect(html).not.toContain("required");
    expect(html).not.toContain(" *<");
  }
});
