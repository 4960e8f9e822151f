import { afterEach, expect, it } from "vitest";
import { setLanguage } from "@/i18n";
import { sourceTitle } from "./sources";

Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
afterEach(() => setLanguage("en"));

it.each([
  ["link", "One-time link", "Einmal-Link"],
  ["password", "Password", "Passwort"],
  ["oidc", "OpenID Connect", "OpenID Connect"],
  ["kerberos", "kerberos", "kerberos"],
])("the source %s is shown as %s", async (source, english, german) => {
  expect(sourceTitle(source)).toBe(english);
  await setLanguage("de");
  expect(sourceTitle(source)).toBe(german);
});
