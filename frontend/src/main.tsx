import "virtual:mantine.css";
import "@mantine/notifications/styles.css";
import "./app.css";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import { startLanguage } from "@/i18n";
import { nonceStyles } from "@/lib/nonce";
import { loadAnewWhenReplaced } from "@/lib/replaced";
import { queryClient } from "@/query-client";
import { router } from "@/router";
import { cssVariables, theme } from "@/theme";

/** Nothing is said before the page is there; what is said meanwhile waits in the library's store. */
const Notices = lazy(async () => ({ default: (await import("@/components/Notices")).Notices }));

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

nonceStyles();
loadAnewWhenReplaced();
await startLanguage();
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" cssVariablesResolver={cssVariables}>
      <QueryClientProvider client={queryClient}>
        <Suspense>
          <Notices />
        </Suspense>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
