/** Names of identity sources in the selected language. */
import i18next from "i18next";

/** The label of an identity source; unknown ones have their own name. */
export function sourceName(source: string): string {
  switch (source) {
    case "password":
      return i18next.t("a platform password");
    case "ldap":
      return i18next.t("the LDAP directory");
    case "oidc":
      return i18next.t("single sign-on (OpenID)");
    case "pam":
      return i18next.t("the Unix account");
    case "link":
      return i18next.t("a one-time link");
    default:
      return source;
  }
}

/** The title of an identity source, as the value of a field; unknown ones have their own name. */
export function sourceTitle(source: string): string {
  switch (source) {
    case "password":
      return i18next.t("Password");
    case "ldap":
      return "LDAP";
    case "oidc":
      return "OpenID Connect";
    case "pam":
      return "PAM";
    case "link":
      return i18next.t("One-time link");
    default:
      return source;
  }
}
