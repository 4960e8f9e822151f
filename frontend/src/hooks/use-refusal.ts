import { useSuspenseQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";

/** Why an administrator who impersonates the user may not start or change anything; null for the user. */
export function useRefusal(): string | null {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  return me.impersonation === null ? null : t("Not available while you impersonate {{name}}.", { name: me.user.name });
}
