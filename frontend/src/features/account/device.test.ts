import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement, type ReactElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, expect, it, vi } from "vitest";
import { meQuery } from "@/api/queries";
import type { DeviceLoginView, Me } from "@/api/types";
import { DevicePage } from "./Device";
import { DeviceRequest } from "./DeviceRequest";

const REQUEST: DeviceLoginView = {
  name: "aitne login on laptop",
  program: "Aitne's command line on Linux",
  address: "192.0.2.7",
  created_at: new Date(Date.now() - 5.5 * 60_000).toISOString(),
  expires_at: new Date(Date.now() + 5 * 60_000).toISOString(),
  seen_at: null,
  token_lifetime_s: 90 * 86_400,
};

beforeAll(() => {
  vi.stubGlobal("navigator", { language: "en-GB", languages: ["en-GB"] });
  vi.stubGlobal("location", { search: "?code=BCD-FGH-JKL", href: "http://portal.test/device?code=BCD-FGH-JKL" });
});

/** The page's HTML as this user sees it. */
function shown(element: ReactElement): string {
  const cache = new QueryClient();
  cache.setQueryData(meQuery.queryKey, { user: { name: "ada", role: "user" }, impersonation: null } as unknown as Me);
  return renderToStaticMarkup(createElement(QueryClientProvider, { client: cache }, createElement(MantineProvider, null, element)));
}

it("does not take the code from the address", () => {
  const page = shown(createElement(DevicePage));
  expect(page).toContain('data-testid="device-code"');
  expect(page).toContain('value=""');
  expect(page).not.toContain('value="BCD');
  expect(page).not.toContain("device-confirm");
});

it("shows which program asks, from where and since when, before it can be confirmed", () => {
  const page = shown(createElement(DeviceRequest, { request: REQUEST, busy: false, error: null, onAnswer: () => undefined }));
  for (const text of ["aitne login on laptop", "192.0.2.7", "command line", "ada"]) expect(page).toContain(text);
  expect(page).toMatch(/5\smin ago/);
  expect(page).toContain('data-testid="device-confirm"');
});
