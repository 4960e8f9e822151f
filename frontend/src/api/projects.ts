/** What the portal asks about projects, and what it changes of them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { client, done, must, tagged } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

type Schemas = components["schemas"];

export type Project = Answered<Schemas["Project"]>;
export type ProjectState = Schemas["ProjectState"];
export type ProjectRole = Schemas["ProjectRole"];
export type LimitUse = Answered<Schemas["LimitUse"]>;
export type ProjectLimits = Answered<Schemas["ProjectLimits"]>;
export type Limits = ProjectLimits["limits"];
export type LimitsInput = Schemas["Limits-Input"];
export type UsageRow = Answered<Schemas["UsageRow"]>;
export type UsageReport = Answered<Schemas["UsageReport"]>;
export type ProjectReport = Answered<Schemas["ProjectReport"]>;
export type Balance = Answered<Schemas["Balance"]>;
export type Share = Balance["gpu_hours"];
export type Member = Answered<Schemas["Member"]>;
export type Invitation = Answered<Schemas["Invitation"]>;
export type InvitationPreview = Answered<Schemas["InvitationPreview"]>;
export type WaitingJob = Answered<Schemas["WaitingJob"]>;
export type NewProject = Omit<Schemas["NewProject"], "limits">;
export type BudgetInput = Schemas["Budget"];
export type RetentionInput = Schemas["Retention-Input"];
export type Approval = Schemas["Approval"];
export type MemberChanges = Partial<Schemas["MemberChanges"]>;
export type NewInvitation = Schemas["NewInvitationBody"];

export const projectKeys = {
  all: ["projects"],
  one: (name: string) => ["projects", name],
} as const;

const at = (name: string) => ({ path: { name } });
const seen = (name: string, tag: string) => ({ path: { name }, header: { "If-Match": tag } });

export const projectsQuery = queryOptions({
  queryKey: projectKeys.all,
  queryFn: async ({ signal }) => must(client.GET("/api/v1/projects", { signal })),
  staleTime: 60_000,
});

export interface ProjectFilters {
  q: string;
  state: ProjectState | null;
  /** Whether personal projects are listed. */
  personal: boolean;
}

const PAGE = 48;

export const projectListQuery = ({ q, state, personal }: ProjectFilters) =>
  infiniteQueryOptions({
    queryKey: [...projectKeys.all, "list", { q, state, personal }],
    queryFn: async ({ pageParam, signal }) => {
      const query = {
        ...(q !== "" && { q }),
        ...(state !== null && { state }),
        ...(!personal && { personal }),
        ...(pageParam !== null && { cursor: pageParam }),
        limit: PAGE,
      };
      return must(client.GET("/api/v1/projects", { params: { query }, signal }));
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor ?? null,
    placeholderData: keepPreviousData,
  });

/** For pickers: the first projects, personal ones left out, that match. */
export const findProjectsQuery = (q: string) =>
  queryOptions({
    queryKey: [...projectKeys.all, "find", q],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/projects", { params: { query: { ...(q !== "" && { q }), personal: false, state: "active", limit: 50 } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  });

/** Projects with a request that waits for an administrator. */
export const pendingProjectsQuery = queryOptions({
  queryKey: [...projectKeys.all, "pending"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/projects", { params: { query: { pending: true, limit: 100 } }, signal })),
  staleTime: 60_000,
});

export const projectQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "itself"],
    queryFn: ({ signal }) => tagged(client.GET("/api/v1/projects/{name}", { params: at(name), signal })),
  });

/** What is in use moves without any event that says so. */
export const limitsQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "limits"],
    queryFn: ({ signal }) => tagged(client.GET("/api/v1/projects/{name}/limits", { params: at(name), signal })),
    refetchInterval: 15_000,
  });

export const membersQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "members"],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/projects/{name}/members", { params: at(name), signal })),
  });

export const invitationsQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "invitations"],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/projects/{name}/invitations", { params: at(name), signal })),
  });

export const balanceQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "balance"],
    queryFn: async ({ signal }) => must(client.GET("/api/v1/projects/{name}/balance", { params: at(name), signal })),
    staleTime: 60_000,
  });

export const reportQuery = (name: string, month: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "report", month],
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/projects/{name}/report", { params: { ...at(name), query: { month } }, signal })),
    staleTime: 30_000,
  });

export const waitingQuery = (name: string) =>
  queryOptions({
    queryKey: [...projectKeys.one(name), "waiting"],
    queryFn: async ({ signal }) =>
      must(client.GET("/api/v1/projects/{name}/waiting", { params: { ...at(name), query: { limit: 50 } }, signal })),
    refetchInterval: 15_000,
  });

export const invitationQuery = (token: string) =>
  queryOptions({
    queryKey: ["invitation", token],
    queryFn: async ({ signal }) => must(client.POST("/api/v1/invitations/preview", { body: { token }, signal })),
    retry: false,
    staleTime: 30_000,
  });

export function usageCsvPath(name: string, month: string): string {
  return `/api/v1/projects/${encodeURIComponent(name)}/usage.csv?month=${month}`;
}

export function createProject(body: NewProject): Promise<Project> {
  return must(client.POST("/api/v1/projects", { body: body as Schemas["NewProject"] }));
}

export function describeProject(name: string, tag: string, body: Schemas["ProjectChanges"]): Promise<Project> {
  return must(client.PATCH("/api/v1/projects/{name}", { params: seen(name, tag), body }));
}

export function approveProject(name: string, body: Approval): Promise<Project> {
  return must(client.POST("/api/v1/projects/{name}/approve", { params: at(name), body }));
}

export function declineProject(name: string, reason: string): Promise<Project> {
  return must(client.POST("/api/v1/projects/{name}/decline", { params: at(name), body: { reason } }));
}

export function closeProject(name: string, reason: string): Promise<Project> {
  return must(client.POST("/api/v1/projects/{name}/close", { params: at(name), body: { reason } }));
}

export function reopenProject(name: string): Promise<Project> {
  return must(client.POST("/api/v1/projects/{name}/reopen", { params: at(name) }));
}

export function setProjectEnd(name: string, tag: string, expires_at: string | null): Promise<Project> {
  return must(client.PUT("/api/v1/projects/{name}/end", { params: seen(name, tag), body: { expires_at } }));
}

export function setProjectBudget(name: string, tag: string, body: BudgetInput): Promise<Project> {
  return must(client.PUT("/api/v1/projects/{name}/budget", { params: seen(name, tag), body }));
}

/** An empty value is the site's. */
export function setProjectRetention(name: string, tag: string, body: RetentionInput): Promise<Project> {
  return must(client.PUT("/api/v1/projects/{name}/retention", { params: seen(name, tag), body }));
}

export function askForTime(name: string, until: string, reason: string): Promise<Project> {
  return must(client.POST("/api/v1/projects/{name}/extension", { params: at(name), body: { until, reason } }));
}

export function setGrantedLimits(name: string, tag: string, body: LimitsInput): Promise<ProjectLimits> {
  return must(client.PUT("/api/v1/projects/{name}/limits", { params: seen(name, tag), body }));
}

export function setOwnLimits(name: string, body: LimitsInput): Promise<ProjectLimits> {
  return must(client.PUT("/api/v1/projects/{name}/limits/own", { params: at(name), body }));
}

export function putMember(name: string, user: string, body: MemberChanges): Promise<Member> {
  return must(client.PUT("/api/v1/projects/{name}/members/{user}", { params: { path: { name, user } }, body: { default: false, ...body } }));
}

export function removeMember(name: string, user: string): Promise<void> {
  return done(client.DELETE("/api/v1/projects/{name}/members/{user}", { params: { path: { name, user } } }));
}

export async function createInvitation(name: string, body: NewInvitation): Promise<{ invitation: Invitation; url: string }> {
  return must(client.POST("/api/v1/projects/{name}/invitations", { params: at(name), body }));
}

export function revokeInvitation(name: string, invitation_id: string): Promise<void> {
  return done(
    client.DELETE("/api/v1/projects/{name}/invitations/{invitation_id}", { params: { path: { name, invitation_id } } }),
  );
}

export function acceptInvitation(token: string): Promise<{ project: string }> {
  return must(client.POST("/api/v1/invitations/accept", { body: { token } }));
}
