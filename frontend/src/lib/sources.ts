import i18next from "i18next";

/** What a source of logins is called; one that another distribution added by its own name. */
export function sourceWords(source: string): string {
  switch (source) {
    case "password":
      return i18next.t("a password of this platform");
    case "ldap":
      return i18next.t("the directory (LDAP)");
    case "oidc":
      return i18next.t("single sign-on (OpenID)");
    case "pam":
      return i18next.t("the account of this machine");
    case "link":
      return i18next.t("a one-time link");
    default:
      return source;
  }
}
