/** The portal's query cache. The live feed updates it, so it seldom refetches by itself. */
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiProblem } from "@/api/problem";

type Listener = () => void;
let onLoggedOut: Listener = () => undefined;

/** Sets the handler for API responses of requests without a valid login. */
export function setLoggedOutHandler(handler: Listener): void {
  onLoggedOut = handler;
}

function onError(error: unknown): void {
  if (error instanceof ApiProblem && error.status === 401) onLoggedOut();
}

/**
 * Keeps the error of a query that has no data while it is fetched again, until that succeeds. The library would forget it
 * at once, and the page would show its skeletons again.
 */
export function keepErrors(cache: QueryCache): void {
  const errors = new WeakMap<object, Error>();
  cache.subscribe((event) => {
    if (event.type !== "updated") return;
    const { query, action } = event;
    const error = query.state.error as Error | null;
    const kept = errors.get(query);
    if (error !== null && query.state.data === undefined) errors.set(query, error);
    else if (action.type === "fetch" && kept !== undefined) query.setState({ status: "error", error: kept });
    else errors.delete(query);
  });
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      // The browser's "online" refers to the internet, which a platform in a local network does not need.
      networkMode: "always",
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && !error.unreachable),
      retryDelay: (attempt) => Math.min(8_000, 400 * 2 ** attempt),
    },
    mutations: { networkMode: "always", retry: false },
  },
});

keepErrors(queryClient.getQueryCache());
