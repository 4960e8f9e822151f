import { type InfiniteData, useMutation, useQueryClient } from "@tanstack/react-query";
import i18next from "i18next";
import { markRead, newestQuery, type NotificationPage, notificationKeys } from "@/api/notifications";
import { notifyProblem } from "@/components/notify";

/** Marks notifications as read, all with `null`: first in the cache, then on the server. */
export function useMarkRead() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (ids: number[] | null) => markRead(ids),
    onMutate: (ids) => {
      const now = new Date().toISOString();
      const markPage = (page: NotificationPage): NotificationPage => {
        const items = page.items.map((each) =>
          each.read_at === null && (ids === null || ids.includes(each.id)) ? { ...each, read_at: now } : each,
        );
        const newlyRead = items.filter((each, index) => each !== page.items[index]).length;
        return { ...page, items, unread: ids === null ? 0 : Math.max(0, page.unread - newlyRead) };
      };
      cache.setQueryData(newestQuery.queryKey, (old) => old && markPage(old));
      for (const unread of [true, false]) {
        cache.setQueryData<InfiniteData<NotificationPage, string | null>>(
          notificationKeys.pages(unread),
          (old) => old && { ...old, pages: old.pages.map(markPage) },
        );
      }
    },
    onError: (error) => {
      notifyProblem(i18next.t("Notifications were not marked as read"), error);
      void cache.invalidateQueries({ queryKey: notificationKeys.all });
    },
  });
}
