import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { type ComponentProps, createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/types";
import { DialogForm } from "./FormDialog";

function render(change: Partial<ComponentProps<typeof DialogForm>>, impersonates = false): string {
  const client = new QueryClient();
  const me = { user: { name: "ada" }, impersonation: impersonates ? { administrator: "root" } : null };
  client.setQueryData(meQuery.queryKey, me as unknown as Me);
  const nothing = () => undefined;
  const form = createElement(DialogForm, { action: "Rename", testId: "rename", busy: false, error: null, onClose: nothing, onSubmit: nothing, children: "Name", ...change });
  return renderToStaticMarkup(createElement(QueryClientProvider, { client }, createElement(MantineProvider, null, form)));
}

const submitOf = (html: string) => /<button[^>]*type="submit"[^>]*>/.exec(html)?.[0];

it("submits the form with its own button", () => {
  const html = render({});
  expect(html).toContain("<form>");
  expect(submitOf(html)).toContain('data-testid="rename"');
  expect(submitOf(html)).not.toContain("disabled");
  expect(html).not.toContain("Cancel");
  expect(render({ cancels: true })).toContain("Cancel");
});

it("cannot be submitted while it is incomplete, under way or not the user's own", () => {
  for (const html of [render({ disabled: true }), render({ busy: true }), render({}, true)]) expect(submitOf(html)).toContain("disabled");
});

it("shows the error of the request above the fields", () => {
  const html = render({ error: new Error("The name is taken.") });
  expect(html).toMatch(/role="alert".*The name is taken\..*Name/s);
  expect(render({})).not.toContain('role="alert"');
});
