/** Notifications, their settings, and webhooks. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { client, done, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered, Job } from "@/api/types";

type Schemas = components["schemas"];

export type InboxNotification = Answered<Schemas["NotificationView"]>;
export type NotificationPage = Answered<Schemas["NotificationPage"]>;
export type Kind = Schemas["NotificationKind"];
export type Level = Schemas["Level"];
export type Settings = Answered<Schemas["NotificationSettingsView"]>;
export type SettingsChanges = Schemas["NotificationSettingsChanges"];
export type Webhook = Answered<Schemas["WebhookView"]>;
export type WebhookSecret = Answered<Schemas["WebhookSecret"]>;
export type Delivery = Answered<Schemas["DeliveryView"]>;
export type IdleGpus = Answered<Schemas["IdleGpuJobs"]>;

export const notificationKeys = {
  all: ["notifications"],
  newest: ["notifications", "newest"],
  pages: (unread: boolean) => ["notifications", "pages", unread],
  settings: ["notification-settings"],
  mails: ["notification-mails"],
  webhooks: ["webhooks"],
  deliveries: (id: string) => ["webhook-deliveries", id],
  idleGpus: ["idle-gpus"],
} as const;

const NEWEST = 12;

/** What the bell shows: the newest, and how many are unread. */
export const newestQuery = queryOptions({
  queryKey: notificationKeys.newest,
  queryFn: async ({ signal }): Promise<NotificationPage> =>
    must(client.GET("/api/v1/notifications", { params: { query: { limit: NEWEST } }, signal })),
  staleTime: 5 * 60_000,
});

export const inboxQuery = (unread: boolean) =>
  infiniteQueryOptions({
    queryKey: notificationKeys.pages(unread),
    queryFn: async ({ pageParam, signal }): Promise<NotificationPage> =>
      must(
        client.GET("/api/v1/notifications", {
          params: { query: { unread, limit: 50, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
  });

export function markRead(ids: number[] | null): Promise<{ unread: number }> {
  return must(client.POST("/api/v1/notifications/read", { body: ids === null ? {} : { ids } }));
}

export interface TaggedSettings {
  settings: Settings;
  etag: string | null;
}

/** With the tag that says what was seen: who saves undoes nobody's change. */
export const notificationSettingsQuery = queryOptions({
  queryKey: notificationKeys.settings,
  queryFn: async ({ signal }): Promise<TaggedSettings> => {
    const call = client.GET("/api/v1/notifications/settings", { signal });
    return { settings: await must(call), etag: (await call).response.headers.get("etag") };
  },
});

export async function saveSettings(body: SettingsChanges, etag: string | null): Promise<TaggedSettings> {
  const call = client.PUT("/api/v1/notifications/settings", {
    body,
    params: { header: etag === null ? {} : { "If-Match": etag } },
  });
  return { settings: await must(call), etag: (await call).response.headers.get("etag") };
}

export function testMail(): Promise<Delivery> {
  return must(client.POST("/api/v1/notifications/mail/test"));
}

export async function fetchMails(): Promise<Delivery[]> {
  return (await must(client.GET("/api/v1/notifications/mail/deliveries"))).items;
}

export const webhooksQuery = queryOptions({
  queryKey: notificationKeys.webhooks,
  queryFn: async ({ signal }): Promise<Webhook[]> => (await must(client.GET("/api/v1/webhooks", { signal }))).items,
});

export const deliveriesQuery = (id: string) =>
  queryOptions({
    queryKey: notificationKeys.deliveries(id),
    queryFn: async (): Promise<Delivery[]> => fetchDeliveries(id),
    staleTime: 0,
  });

export async function fetchDeliveries(id: string): Promise<Delivery[]> {
  const path = { webhook_id: id };
  return (await must(client.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params: { path } }))).items;
}

export function createWebhook(url: string): Promise<WebhookSecret> {
  return must(client.POST("/api/v1/webhooks", { body: { url } }));
}

export function enableWebhook(id: string, enabled: boolean): Promise<Webhook> {
  return must(client.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } }, body: { enabled } }));
}

export function rotateWebhook(id: string): Promise<WebhookSecret> {
  return must(client.POST("/api/v1/webhooks/{webhook_id}/rotate", { params: { path: { webhook_id: id } } }));
}

export function testWebhook(id: string): Promise<Delivery> {
  return must(client.POST("/api/v1/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id } } }));
}

export function removeWebhook(id: string): Promise<void> {
  return done(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));
}

export function keepSession(id: string): Promise<Job> {
  return must(client.POST("/api/v1/sessions/{job_id}/keep", { params: { path: { job_id: id } } }));
}

export const idleGpusQuery = queryOptions({
  queryKey: notificationKeys.idleGpus,
  queryFn: async ({ signal }): Promise<IdleGpus> => must(client.GET("/api/v1/admin/idle-gpus", { signal })),
  refetchInterval: 60_000,
});
