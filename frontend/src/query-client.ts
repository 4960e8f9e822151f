/** One cache for the whole portal. It is kept true by the live feed, so it seldom asks again by itself. */
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { ApiProblem } from "@/api/problem";

type Listener = () => void;
let onLoggedOut: Listener = () => undefined;

/** Called whenever the API says that nobody is logged in. */
export function setLoggedOutHandler(handler: Listener): void {
  onLoggedOut = handler;
}

function notice(error: unknown): void {
  if (error instanceof ApiProblem && error.status === 401) onLoggedOut();
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: notice }),
  mutationCache: new MutationCache({ onError: notice }),
  defaultOptions: {
    queries: {
      // "Online" is a guess of the browser about the internet, which a platform in a lab may not need.
      networkMode: "always",
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < 3 && !(error instanceof ApiProblem && !error.unreachable),
      retryDelay: (attempt) => Math.min(8_000, 400 * 2 ** attempt),
    },
    mutations: { networkMode: "always", retry: false },
  },
});
