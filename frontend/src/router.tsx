import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
  stripSearchParams,
} from "@tanstack/react-router";
import { isStatus } from "@/api/client";
import { type JobFilters, meQuery } from "@/api/queries";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { STATE_GROUPS } from "@/lib/states";
import { DashboardPage } from "@/pages/Dashboard";
import { NotFoundPage } from "@/pages/NotFound";
import { Shell } from "@/pages/Shell";
import { queryClient, setLoggedOutHandler } from "@/query-client";

const rootRoute = createRootRouteWithContext()({ component: Outlet, notFoundComponent: NotFoundPage });

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (search: Record<string, unknown>): { next?: string } =>
    typeof search.next === "string" ? { next: search.next } : {},
  component: lazyRouteComponent(() => import("@/pages/Login"), "LoginPage"),
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
  validateSearch: (search: Record<string, unknown>): { launch?: string } =>
    typeof search.launch === "string" ? { launch: search.launch } : {},
  component: DashboardPage,
});

const FILTER_DEFAULTS: JobFilters = { q: "", all: false };

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: (search: Record<string, unknown>): JobFilters => ({
    state: STATE_GROUPS.find((group) => group.value === search.state)?.value,
    type: search.type === "job" || search.type === "session" ? search.type : undefined,
    q: typeof search.q === "string" || typeof search.q === "number" ? String(search.q).slice(0, 200) : "",
    all: search.all === true || search.all === "true",
  }),
  search: { middlewares: [stripSearchParams(FILTER_DEFAULTS)] },
  component: lazyRouteComponent(() => import("@/pages/Jobs"), "JobsPage"),
});

export const JOB_TABS = ["log", "tasks", "script", "history"] as const;
export type JobTab = (typeof JOB_TABS)[number];

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$jobId",
  validateSearch: (search: Record<string, unknown>): { tab?: JobTab } => {
    const tab = JOB_TABS.find((name) => name === search.tab);
    return tab === undefined ? {} : { tab };
  },
  component: lazyRouteComponent(() => import("@/pages/Job"), "JobPage"),
});

const clusterRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/cluster",
  component: lazyRouteComponent(() => import("@/pages/Cluster"), "ClusterPage"),
});

const tokensRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/tokens",
  component: lazyRouteComponent(() => import("@/pages/Tokens"), "TokensPage"),
});

const projectsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/projects",
  validateSearch: (search: Record<string, unknown>): { name?: string } =>
    typeof search.name === "string" ? { name: search.name } : {},
  component: lazyRouteComponent(() => import("@/pages/Projects"), "ProjectsPage"),
});

const usersRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/users",
  component: lazyRouteComponent(() => import("@/pages/Users"), "UsersPage"),
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    loginRoute,
    shellRoute.addChildren([dashboardRoute, jobsRoute, jobRoute, clusterRoute, projectsRoute, tokensRoute, usersRoute]),
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: PageLoading,
  defaultPendingMs: 300,
  defaultErrorComponent: ({ error, reset }) => <PageError error={error} onRetry={reset} />,
  scrollRestoration: true,
});

let leaving = false;

// However many requests hear it at once, the way to the login page is taken once.
setLoggedOutHandler(() => {
  if (leaving || router.state.location.pathname === "/login") return;
  leaving = true;
  const next = router.state.location.href;
  void router.navigate({ to: "/login", search: next === "/" ? {} : { next } }).finally(() => {
    queryClient.clear();
    leaving = false;
  });
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
