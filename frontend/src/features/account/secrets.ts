/** The user's secrets: values that jobs get as environment variables. */
import { queryOptions } from "@tanstack/react-query";
import { client, done, must } from "@/api/client";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

export type Secret = Answered<components["schemas"]["UserSecret"]>;

export const secretsQuery = queryOptions({
  queryKey: ["secrets"],
  queryFn: ({ signal }) => must(client.GET("/api/v1/secrets", { signal })),
});

export function putSecret(name: string, value: string): Promise<Secret> {
  return must(client.PUT("/api/v1/secrets/{name}", { params: { path: { name } }, body: { value } }));
}

export function deleteSecret(name: string): Promise<void> {
  return done(client.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } }));
}
