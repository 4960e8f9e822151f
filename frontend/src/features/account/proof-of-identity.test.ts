import { expect, it } from "vitest";
import type { Account } from "./account";
import { proofOf } from "./proof-of-identity";

const withFactor = (enabled: boolean) => ({ enabled }) as Account["second_factor"];

it.each([
  ["a password", { has_password: true, source: "password", role: "admin" }, false, "password"],
  ["a password elsewhere", { has_password: false, source: "ldap", role: "user" }, false, "password"],
  ["a second factor alone", { has_password: false, source: "password", role: "user" }, true, "code"],
  ["an administrator by link", { has_password: false, source: "password", role: "admin" }, false, "link"],
  ["an identity provider", { has_password: false, source: "oidc", role: "user" }, false, "login"],
  ["a user by link", { has_password: false, source: "password", role: "user" }, false, "none"],
] as const)("confirms %s", (_, account, factor, proof) => {
  expect(proofOf({ ...account, second_factor: withFactor(factor) })).toBe(proof);
});
