import { type MantineColorScheme, useMantineColorScheme } from "@mantine/core";
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import i18next from "i18next";
import { useEffect } from "react";
import { client, must } from "@/api/client";
import type { components } from "@/api/schema";
import { chooseLanguage, type Language } from "@/i18n";

type Look = components["schemas"]["PortalPreferences"];

const lookQuery = queryOptions({
  queryKey: ["preferences", "portal"],
  queryFn: async ({ signal }) => must(client.GET("/api/v1/me/preferences/portal", { signal })),
  staleTime: Infinity,
});

/** Colours and language as somebody chose them last, in whichever browser. Nothing was chosen: this browser's own. */
export function useChosenLook(): void {
  const { data } = useQuery(lookQuery);
  const { setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    if (data === undefined || (data.language === null && data.theme === "auto")) return;
    setColorScheme(data.theme);
    if (data.language !== null && data.language !== i18next.language) void chooseLanguage(data.language);
  }, [data, setColorScheme]);
}

/** Changes them here at once, and keeps the choice for other browsers; whether that worked is of no matter here. */
export function useLook() {
  const cache = useQueryClient();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const keep = useMutation({
    mutationFn: async (change: Partial<Look>) => {
      const old = await cache.query(lookQuery);
      return must(client.PUT("/api/v1/me/preferences/portal", { body: { ...old, ...change } }));
    },
    onSuccess: (answer) => cache.setQueryData(lookQuery.queryKey, answer),
  });
  return {
    colorScheme,
    setScheme: (theme: MantineColorScheme) => {
      setColorScheme(theme);
      keep.mutate({ theme });
    },
    setLanguage: (language: Language) => {
      void chooseLanguage(language);
      keep.mutate({ language, theme: colorScheme });
    },
  };
}
