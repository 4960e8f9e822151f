import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  notFound,
  Outlet,
  redirect,
  stripSearchParams,
} from "@tanstack/react-router";
import { isStatus } from "@/api/client";
import { meQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { readAuditFilters } from "@/features/audit/audit-filters";
import { readLoadSearch } from "@/features/cluster/load-search";
import { JOB_TABS, type JobTab } from "@/features/jobs/job-tabs";
import { PROJECT_TABS, type ProjectTab } from "@/features/projects/project-tabs";
import { FILTER_DEFAULTS, readFilters } from "@/lib/job-filters";
import { DashboardPage } from "@/pages/Dashboard";
import { NotFoundPage } from "@/pages/NotFound";
import { queryClient, setLoggedOutHandler } from "@/query-client";
import { Shell } from "@/shell/Shell";

const rootRoute = createRootRouteWithContext()({ component: Outlet, notFoundComponent: NotFoundPage });

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (search: Record<string, unknown>): { next?: string; failed?: string } => ({
    ...(typeof search.next === "string" && { next: search.next }),
    ...(typeof search.failed === "string" && { failed: search.failed }),
  }),
  component: lazyRouteComponent(() => import("@/features/account/Login"), "LoginPage"),
});

const resetRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/reset",
  component: lazyRouteComponent(() => import("@/features/account/Reset"), "ResetPage"),
});

const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "shell",
  beforeLoad: async ({ location }) => {
    try {
      await queryClient.query({ ...meQuery, staleTime: "static" });
    } catch (error) {
      if (isStatus(error, 401)) {
        throw redirect({ to: "/login", search: location.href === "/" ? {} : { next: location.href } });
      }
      throw error;
    }
  },
  component: Shell,
});

const dashboardRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/",
  validateSearch: (search: Record<string, unknown>): { launch?: string; preset?: string } => ({
    ...(typeof search.launch === "string" && { launch: search.launch }),
    ...(typeof search.preset === "string" && { preset: search.preset }),
  }),
  component: DashboardPage,
});

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: readFilters,
  search: { middlewares: [stripSearchParams(FILTER_DEFAULTS)] },
  component: lazyRouteComponent(() => import("@/features/jobs/Jobs"), "JobsPage"),
});

const composeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/compose",
  validateSearch: (search: Record<string, unknown>): { from?: string; template?: string } => ({
    ...(typeof search.from === "string" ? { from: search.from } : {}),
    ...(typeof search.template === "string" ? { template: search.template } : {}),
  }),
  component: lazyRouteComponent(() => import("@/features/jobs/compose/Compose"), "ComposePage"),
});

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$jobId",
  validateSearch: (search: Record<string, unknown>): { tab?: JobTab } => {
    const tab = JOB_TABS.find((name) => name === search.tab);
    return tab === undefined ? {} : { tab };
  },
  component: lazyRouteComponent(() => import("@/features/jobs/Job"), "JobPage"),
});

const deviceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/device",
  component: lazyRouteComponent(() => import("@/features/account/Device"), "DevicePage"),
});

const compareRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/compare",
  validateSearch: (search: Record<string, unknown>): { runs?: string } => (typeof search.runs === "string" ? { runs: search.runs } : {}),
  component: lazyRouteComponent(() => import("@/features/jobs/runs/Compare"), "ComparePage"),
});

const terminalRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$jobId/terminal",
  validateSearch: (search: Record<string, unknown>): { node?: string } =>
    typeof search.node === "string" ? { node: search.node } : {},
  component: lazyRouteComponent(() => import("@/features/jobs/terminal/Terminal"), "TerminalPage"),
});

const clusterRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/cluster",
  validateSearch: (search: Record<string, unknown>): { tab?: "topology" } => (search.tab === "topology" ? { tab: "topology" } : {}),
  component: lazyRouteComponent(() => import("@/features/cluster/Cluster"), "ClusterPage"),
});

const nodeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/cluster/nodes/$name",
  component: lazyRouteComponent(() => import("@/features/cluster/Node"), "NodePage"),
});

const imagesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/images",
  component: lazyRouteComponent(() => import("@/features/images/Images"), "ImagesPage"),
});

const imageRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/images/$name/$version",
  component: lazyRouteComponent(() => import("@/features/images/Image"), "ImagePage"),
});

const datasetsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/datasets",
  component: lazyRouteComponent(() => import("@/features/datasets/Datasets"), "DatasetsPage"),
});

const datasetRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/datasets/$name/$version",
  component: lazyRouteComponent(() => import("@/features/datasets/Dataset"), "DatasetPage"),
});

const accountRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/account",
  beforeLoad: ({ location }) => {
    if (location.pathname === "/account") throw redirect({ to: "/account/profile" });
  },
  component: lazyRouteComponent(() => import("@/features/account/Account"), "AccountPage"),
});

const profileRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/profile",
  component: lazyRouteComponent(() => import("@/features/account/Profile"), "ProfilePage"),
});

const securityRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/security",
  component: lazyRouteComponent(() => import("@/features/account/Security"), "SecurityPage"),
});

const signInsRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/sign-ins",
  component: lazyRouteComponent(() => import("@/features/account/SignIns"), "SignInsPage"),
});

const accountNotificationsRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/notifications",
  component: lazyRouteComponent(() => import("@/features/account/Notifications"), "AccountNotificationsPage"),
});

const notificationsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/notifications",
  component: lazyRouteComponent(() => import("@/features/notifications/Notifications"), "NotificationsPage"),
});

const accountTokensRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/tokens",
  component: lazyRouteComponent(() => import("@/features/account/Tokens"), "TokensPage"),
});

const accountSecretsRoute = createRoute({
  getParentRoute: () => accountRoute,
  path: "/secrets",
  component: lazyRouteComponent(() => import("@/features/account/Secrets"), "SecretsPage"),
});

const projectsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/projects",
  component: lazyRouteComponent(() => import("@/features/projects/Projects"), "ProjectsPage"),
});

const projectRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/projects/$name",
  validateSearch: (search: Record<string, unknown>): { tab?: ProjectTab } => {
    const tab = PROJECT_TABS.find((name) => name === search.tab);
    return tab === undefined ? {} : { tab };
  },
  component: lazyRouteComponent(() => import("@/features/projects/Project"), "ProjectPage"),
});

const projectReportRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/projects/$name/report",
  validateSearch: (search: Record<string, unknown>): { month?: string } =>
    typeof search.month === "string" && /^2\d{3}-(0[1-9]|1[0-2])$/.test(search.month) ? { month: search.month } : {},
  component: lazyRouteComponent(() => import("@/features/projects/ProjectReport"), "ProjectReportPage"),
});

const helpRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/help",
  component: lazyRouteComponent(() => import("@/pages/Help"), "HelpPage"),
});

const inviteRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/invite",
  component: lazyRouteComponent(() => import("@/features/projects/Invite"), "InvitePage"),
});

/** For administrators; "not found" for other users. */
const adminRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/admin",
  beforeLoad: async () => {
    const me = await queryClient.query({ ...meQuery, staleTime: "static" });
    if (me.user.role !== "admin") throw notFound();
  },
  component: lazyRouteComponent(() => import("@/features/platform/AdminLayout"), "AdminLayout"),
});

const adminOverviewRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/",
  component: lazyRouteComponent(() => import("@/features/platform/Overview"), "AdminOverviewPage"),
});

const adminJobsRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/jobs",
  validateSearch: readFilters,
  search: { middlewares: [stripSearchParams(FILTER_DEFAULTS)] },
  component: lazyRouteComponent(() => import("@/features/jobs/admin/Jobs"), "AdminJobsPage"),
});

const adminNodesRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/nodes",
  component: lazyRouteComponent(() => import("@/features/cluster/Nodes"), "AdminNodesPage"),
});

const adminLoadRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/load",
  validateSearch: readLoadSearch,
  component: lazyRouteComponent(() => import("@/features/cluster/Load"), "AdminLoadPage"),
});

const adminUsersRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/users",
  component: lazyRouteComponent(() => import("@/features/users/Users"), "AdminUsersPage"),
});

const adminAnnouncementsRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/announcements",
  component: lazyRouteComponent(() => import("@/features/platform/Announcements"), "AnnouncementsPage"),
});

const adminCatalogueRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/catalogue",
  component: lazyRouteComponent(() => import("@/pages/Catalogue"), "CataloguePage"),
});

const adminAuditRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/audit",
  validateSearch: readAuditFilters,
  component: lazyRouteComponent(() => import("@/features/audit/Audit"), "AuditPage"),
});

const adminSettingsRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "/settings",
  component: lazyRouteComponent(() => import("@/features/platform/Settings"), "SettingsPage"),
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    loginRoute,
    inviteRoute,
    resetRoute,
    shellRoute.addChildren([
      dashboardRoute, jobsRoute, composeRoute, jobRoute, terminalRoute, compareRoute, deviceRoute, clusterRoute, nodeRoute, imagesRoute, imageRoute, datasetsRoute, datasetRoute,
      projectsRoute, projectRoute, projectReportRoute, notificationsRoute, helpRoute,
      accountRoute.addChildren([profileRoute, securityRoute, signInsRoute, accountNotificationsRoute, accountTokensRoute, accountSecretsRoute]),
      adminRoute.addChildren([
        adminOverviewRoute, adminJobsRoute, adminLoadRoute, adminNodesRoute, adminUsersRoute, adminAnnouncementsRoute, adminCatalogueRoute,
        adminAuditRoute, adminSettingsRoute,
      ]),
    ]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: PageLoading,
  defaultPendingMs: 300,
  defaultErrorComponent: ({ error, reset }) => <PageError error={error} onRetry={reset} />,
  scrollRestoration: true,
});

let redirecting = false;

// Concurrent requests without a valid login redirect to the login page only once.
setLoggedOutHandler(() => {
  if (redirecting || router.state.location.pathname === "/login") return;
  redirecting = true;
  const next = router.state.location.href;
  void router.navigate({ to: "/login", search: next === "/" ? {} : { next } }).finally(() => {
    queryClient.clear();
    redirecting = false;
  });
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
