/** What administrators ask the API and tell it; announcements and maintenance, which everybody sees. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { API, client, done, must, tagged } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

type Schemas = components["schemas"];

export type Health = Answered<Schemas["Health"]>;
export type PartHealth = Health["parts"][number];
export type AuditEntry = Answered<Schemas["AuditEntry"]>;
export type AuditCheck = Answered<Schemas["AuditCheck"]>;
export type Announcement = Answered<Schemas["AnnouncementView"]>;
export type Maintenance = Answered<Schemas["MaintenanceView"]>;
export type NodeEvent = Answered<Schemas["NodeEvent"]>;
export type Setting = Answered<Schemas["SettingView"]>;
export type Protection = Answered<Schemas["ProtectionView"]>;
export type ResetLink = Answered<Schemas["ResetLink"]>;
export type Severity = Schemas["Severity"];
export type NewAnnouncement = Schemas["NewAnnouncement"];
export type AnnouncementChanges = Schemas["AnnouncementChanges"];
export type NewMaintenance = Schemas["NewMaintenance"];
export type Outcome = AuditEntry["outcome"];

export interface AuditFilters {
  actor?: string | undefined;
  action?: string | undefined;
  object?: string | undefined;
  outcome?: Outcome | undefined;
  /** Days in the viewer's zone, the last one included. */
  from?: string | undefined;
  to?: string | undefined;
  /** Set: with changes of users' own preferences. */
  preferences?: boolean | undefined;
}

export const adminKeys = {
  announcements: ["announcements"],
  allAnnouncements: ["announcements", "all"],
  maintenance: ["maintenance"],
  health: ["admin", "health"],
  audit: ["admin", "audit"],
  settings: ["admin", "settings"],
  drains: ["admin", "drains"],
  counts: ["admin", "counts"],
  users: ["users"],
  protection: (name: string) => ["users", name, "protection"],
  nodeHistory: (name: string) => ["nodes", name, "history"],
  /** What was seen of something when its form was opened: no news of it may change that. */
  edited: (what: string, id = "") => ["edited", what, id],
} as const;

export const announcementsQuery = queryOptions({
  queryKey: adminKeys.announcements,
  queryFn: async ({ signal }) => (await must(client.GET("/api/v1/announcements", { signal }))).items,
  // Changes come by the live feed.
  staleTime: 5 * 60_000,
});

export const allAnnouncementsQuery = infiniteQueryOptions({
  queryKey: adminKeys.allAnnouncements,
  queryFn: async ({ pageParam, signal }) =>
    must(
      client.GET("/api/v1/announcements", {
        params: { query: { all: true, ...(pageParam === null ? {} : { cursor: pageParam }), limit: 50 } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next_cursor ?? null,
});

export const maintenanceQuery = queryOptions({
  queryKey: adminKeys.maintenance,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/maintenance", { signal })),
  staleTime: 5 * 60_000,
});

export const healthQuery = queryOptions({
  queryKey: adminKeys.health,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/admin/health", { signal })),
  // No event tells of what breaks beside the database.
  refetchInterval: 10_000,
});

/** How many jobs there are of each state. */
export const countsQuery = queryOptions({
  queryKey: adminKeys.counts,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/jobs:count", { params: { query: { top_level: true } }, signal })),
  refetchInterval: 15_000,
});

export const settingsQuery = queryOptions({
  queryKey: adminKeys.settings,
  queryFn: async ({ signal }) => (await must(client.GET("/api/v1/admin/settings", { signal }))).items,
  staleTime: Infinity,
});

export const drainsQuery = queryOptions({
  queryKey: adminKeys.drains,
  queryFn: async ({ signal }) => {
    const { items } = await must(client.GET("/api/v1/admin/drains", { signal }));
    return new Map(items.map((drain) => [drain.node, drain]));
  },
});

export const nodeHistoryQuery = (name: string) =>
  infiniteQueryOptions({
    queryKey: adminKeys.nodeHistory(name),
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/cluster/nodes/{name}/history", {
          params: { path: { name }, query: { ...(pageParam === null ? {} : { cursor: pageParam }), limit: 50 } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
  });

function auditSearch({ actor, action, object, outcome, from, to, preferences }: AuditFilters) {
  return {
    ...(preferences === true || action !== undefined ? {} : { preferences: false }),
    ...(actor === undefined ? {} : { actor }),
    ...(action === undefined ? {} : { action }),
    ...(object === undefined ? {} : { object }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(from === undefined ? {} : { since: midnight(from, 0) }),
    ...(to === undefined ? {} : { until: midnight(to, 1) }),
  };
}

/** The moment in the viewer's zone at which a day begins, or one that comes after it. */
function midnight(day: string, later: number): string {
  const [year = 1970, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later).toISOString();
}

export const auditQuery = (filters: AuditFilters) =>
  infiniteQueryOptions({
    queryKey: [...adminKeys.audit, filters],
    queryFn: async ({ pageParam, signal }) =>
      must(
        client.GET("/api/v1/admin/audit", {
          params: { query: { ...auditSearch(filters), ...(pageParam === null ? {} : { cursor: pageParam }), limit: 100 } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
    placeholderData: keepPreviousData,
  });

/** Where the browser finds the same entries as a file. */
export function auditExport(filters: AuditFilters, format: "jsonl" | "csv"): string {
  const query = new URLSearchParams({ ...Object.fromEntries(Object.entries(auditSearch(filters)).map(([name, value]) => [name, String(value)])), format });
  return `${API}/admin/audit/export?${query.toString()}`;
}

export function checkAudit(): Promise<AuditCheck> {
  return must(client.GET("/api/v1/admin/audit/check"));
}

export type ListedUser = Answered<Schemas["UserListItem"]>;

export interface UserFilters {
  q: string;
  role: Schemas["Role"] | null;
  disabled: boolean | null;
  sort: Schemas["UserSort"];
  descending: boolean;
}

export const accountsQuery = ({ q, role, disabled, sort, descending }: UserFilters) =>
  infiniteQueryOptions({
    queryKey: [...adminKeys.users, { q, role, disabled, sort, descending }],
    queryFn: async ({ pageParam, signal }) => {
      const query = {
        ...(q !== "" && { q }),
        ...(role !== null && { role }),
        ...(disabled !== null && { disabled }),
        ...(pageParam !== null && { cursor: pageParam }),
        sort,
        order: descending ? ("desc" as const) : ("asc" as const),
        limit: 50,
      };
      return must(client.GET("/api/v1/users", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
    placeholderData: keepPreviousData,
  });

export const protectionQuery = (name: string) =>
  queryOptions({
    queryKey: adminKeys.protection(name),
    queryFn: async ({ signal }) => must(client.GET("/api/v1/users/{name}/protection", { params: { path: { name } }, signal })),
  });

export function makeResetLink(name: string): Promise<ResetLink> {
  return must(client.POST("/api/v1/users/{name}/reset-link", { params: { path: { name } } }));
}

export function resetSecondFactor(name: string): Promise<void> {
  return done(client.POST("/api/v1/users/{name}/reset-second-factor", { params: { path: { name } } }));
}

export function unlockUser(name: string): Promise<void> {
  return done(client.POST("/api/v1/users/{name}/unlock", { params: { path: { name } } }));
}

export function signOutUser(name: string): Promise<void> {
  return done(client.DELETE("/api/v1/users/{name}/sign-ins", { params: { path: { name } } }));
}

export function impersonate(name: string): Promise<void> {
  return done(client.POST("/api/v1/users/{name}/impersonate", { params: { path: { name } } }));
}

export function createAnnouncement(body: NewAnnouncement): Promise<Announcement> {
  return must(client.POST("/api/v1/announcements", { body }));
}

/** An announcement with the tag that says what was seen of it. */
export async function readAnnouncement(id: string): Promise<{ announcement: Announcement; tag: string }> {
  const { value, tag } = await tagged(client.GET("/api/v1/announcements/{announcement_id}", { params: { path: { announcement_id: id } } }));
  return { announcement: value, tag };
}

export function changeAnnouncement(id: string, tag: string, body: AnnouncementChanges): Promise<Announcement> {
  const params = { path: { announcement_id: id }, header: { "If-Match": tag } };
  return must(client.PATCH("/api/v1/announcements/{announcement_id}", { params, body }));
}

export function deleteAnnouncement(id: string): Promise<void> {
  return done(client.DELETE("/api/v1/announcements/{announcement_id}", { params: { path: { announcement_id: id } } }));
}

export function dismissAnnouncement(id: string): Promise<void> {
  return done(client.PUT("/api/v1/announcements/{announcement_id}/dismissal", { params: { path: { announcement_id: id } } }));
}

/** The tag that says what was seen of the maintenance. */
export async function readMaintenanceTag(): Promise<string> {
  return (await tagged(client.GET("/api/v1/maintenance"))).tag;
}

export function setMaintenance(tag: string, body: NewMaintenance): Promise<Maintenance> {
  return must(client.PUT("/api/v1/maintenance", { params: { header: { "If-Match": tag } }, body }));
}

export function endMaintenance(): Promise<Maintenance> {
  return must(client.DELETE("/api/v1/maintenance"));
}
