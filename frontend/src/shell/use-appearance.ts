import { type MantineColorScheme, useMantineColorScheme } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import i18next from "i18next";
import { useEffect } from "react";
import { client, must } from "@/api/client";
import type { components } from "@/api/schema";
import { chooseLanguage, type Language } from "@/i18n";

type Appearance = components["schemas"]["PortalPreferences"];

const appearanceQuery = queryOptions({
  queryKey: ["preferences", "portal"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/me/preferences/portal", { signal })),
  staleTime: Infinity,
});

/** Applies the user's stored colour scheme and language; without a stored value, the browser's. */
export function useStoredAppearance(): void {
  const { data } = useQuery(appearanceQuery);
  const { setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    if (data === undefined || (data.language === null && data.theme === "auto")) return;
    setColorScheme(data.theme);
    if (data.language !== null && data.language !== i18next.language) void chooseLanguage(data.language);
  }, [data, setColorScheme]);
}

/** Changes colour scheme and language at once and stores them for other browsers; a failure is ignored. */
export function useAppearance() {
  const cache = useQueryClient();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const store = useMutation({
    mutationFn: async (change: Partial<Appearance>) => {
      const old = await cache.query(appearanceQuery);
      return must(client.PUT("/api/v1/me/preferences/portal", { body: { ...old, ...change } }));
    },
    onSuccess: (answer) => cache.setQueryData(appearanceQuery.queryKey, answer),
  });
  return {
    colorScheme,
    setScheme: (theme: MantineColorScheme) => {
      setColorScheme(theme);
      store.mutate({ theme });
    },
    setLanguage: (language: Language) => {
      void chooseLanguage(language);
      store.mutate({ language, theme: colorScheme });
    },
  };
}
