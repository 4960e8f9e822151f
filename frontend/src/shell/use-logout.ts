import { useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import i18next from "i18next";
import { logout } from "@/api/actions";
import { meQuery } from "@/api/queries";
import { notifyProblem } from "@/components/notify";

/** Ends the login here and on the sessions' origin, which has one of its own and leads back. */
export function useLogout(): () => Promise<void> {
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  return async () => {
    try {
      await logout();
    } catch (error) {
      notifyProblem(i18next.t("You are still logged in"), error);
      return;
    }
    cache.clear();
    window.location.assign(`${me.platform.sessions_origin}/hub/logout`);
  };
}
