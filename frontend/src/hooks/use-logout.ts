import { useSuspenseQuery } from "@tanstack/react-query";
import i18next from "i18next";
import { logout } from "@/api/actions";
import { meQuery } from "@/api/queries";
import { notifyProblem } from "@/components/notify";

/** Logs the user out here and on the sessions' origin, which has a login of its own and redirects back. */
export function useLogout(): () => Promise<void> {
  const { data: me } = useSuspenseQuery(meQuery);
  return async () => {
    try {
      await logout();
    } catch (error) {
      notifyProblem(i18next.t("Logout failed"), error);
      return;
    }
    // The cache ends with the page. Clearing it here would make the parts that are still shown fetch again, without a login.
    window.location.assign(`${me.platform.sessions_origin}/hub/logout`);
  };
}
