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
import { reloadAfterUpgrade } from "@/lib/reload";
import { queryClient } from "@/query-client";
import { router } from "@/router";
import { cssVariables, theme } from "@/theme";

/** Loaded after the page; earlier toasts wait in the library's store. */
const Toasts = lazy(async () => ({ default: (await import("@/components/Toasts")).Toasts }));

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

nonceStyles();
reloadAfterUpgrade();
await startLanguage();
createRoot(root).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" cssVariablesResolver={cssVariables}>
      <QueryClientProvider client={queryClient}>
        <Suspense>
          <Toasts />
        </Suspense>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
