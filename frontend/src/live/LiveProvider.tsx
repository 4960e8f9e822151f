import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useState, useSyncExternalStore } from "react";
import { platformNow } from "@/api/client";
import { notificationKeys } from "@/api/notifications";
import { meQuery } from "@/api/queries";
import { notifyEnding } from "@/components/notify-ending";
import { endingOf } from "@/lib/ending";
import { changesInbox, notificationOf } from "@/lib/notification-events";
import { CacheUpdater } from "@/live/apply";
import { LiveFeed, type LiveState } from "@/live/live";
import { isJobEvent } from "@/live/patch";

interface Live {
  feed: LiveFeed;
  updater: CacheUpdater;
}

const LiveContext = createContext<Live | null>(null);

/** Runs the live feed while a user is logged in. */
export function LiveProvider({ user, children }: { user: string; children: ReactNode }) {
  const cache = useQueryClient();
  const [live] = useState(() => {
    const updater = new CacheUpdater(cache, user);
    const feed = new LiveFeed("/api/v1/events", `aitne-live-${user}`, {
      onEvent: (kind, event) => {
        updater.apply(kind, event);
        const ending = isJobEvent(event) ? endingOf(event, user, platformNow()) : null;
        if (ending !== null) notifyEnding(ending);
        if (changesInbox(event, user)) void cache.invalidateQueries({ queryKey: notificationKeys.all });
        const notification = notificationOf(event, user, platformNow());
        if (notification !== null) void import("@/components/show-notification").then(({ showNotification }) => showNotification(notification));
      },
      onReset: () => updater.reset(),
      // Refetching the user leads to the login page.
      onUnauthorized: () => void cache.invalidateQueries({ queryKey: meQuery.queryKey }),
    });
    return { feed, updater };
  });
  useEffect(() => {
    live.updater.start();
    live.feed.start();
    return () => {
      live.feed.stop();
      live.updater.stop();
    };
  }, [live]);
  return <LiveContext value={live}>{children}</LiveContext>;
}

function useLive(): Live {
  const live = use(LiveContext);
  if (live === null) throw new Error("outside of LiveProvider");
  return live;
}

export function useLiveState(): LiveState {
  const { feed } = useLive();
  return useSyncExternalStore(feed.subscribe, feed.getState);
}

/** Puts a job from an API response into every list that contains it. */
export function useCacheUpdater(): CacheUpdater {
  return useLive().updater;
}
