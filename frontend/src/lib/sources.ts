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
