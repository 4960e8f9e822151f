import type { Account } from "./account";

/** What confirms who is at the browser; `login`: only a new login does, `none`: the account has nothing that could. */
export type Proof = "password" | "code" | "link" | "login" | "none";

/** How the account can be confirmed. Identity providers with a redirect require a new login. */
export function proofOf(account: Pick<Account, "has_password" | "source" | "second_factor" | "role"> | undefined): Proof {
  if (account === undefined || account.has_password || ["ldap", "pam"].includes(account.source)) return "password";
  if (account.second_factor.enabled) return "code";
  if (account.role === "admin") return "link";
  return account.source === "password" ? "none" : "login";
}
