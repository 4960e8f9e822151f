import { createElement, type FunctionComponent } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { withoutMarks } from "@/lib/without-marks";
import { CodeText } from "./CodeText";
import { ServerText } from "./ServerText";

const markup = (component: FunctionComponent<{ children: string }>, text: string) => renderToStaticMarkup(createElement(component, { children: text }));

it("shows what is between backticks as code", () => {
  expect(markup(CodeText, "Set `tls.enabled`, or run `aitne up`.")).toBe('Set <code class="mono">tls.enabled</code>, or run <code class="mono">aitne up</code>.');
  expect(markup(CodeText, "A lone ` stays.")).toBe("A lone ` stays.");
});

it("shows no backticks in the platform's messages", () => {
  expect(markup(ServerText, "The private key of `certificate` (PEM).")).toBe('<span>The private key of <code class="mono">certificate</code> (PEM).</span>');
});

it("leaves the backticks out of plain text", () => {
  expect(withoutMarks("Run `aitne up`.")).toBe("Run aitne up.");
});
