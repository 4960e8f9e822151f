import { QueryCache, QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { keepErrors } from "./query-client";

it("keeps the error of a query on its page until a retry succeeds", async () => {
  const cache = new QueryCache();
  keepErrors(cache);
  const answers: (() => Promise<string>)[] = [
    () => Promise.reject(new Error("first")),
    () => Promise.reject(new Error("second")),
    () => Promise.resolve("data"),
  ];
  const ask = () => answers.shift()?.() ?? Promise.reject(new Error("asked too often"));
  const observer = new QueryObserver(new QueryClient({ queryCache: cache }), { queryKey: ["nodes"], queryFn: ask, retry: false, enabled: false });
  const shown: string[] = [];
  const stop = observer.subscribe(({ status, fetchStatus, error }) => shown.push([status, fetchStatus, error?.message ?? "no error"].join(", ")));
  for (const last of ["error, idle, first", "error, idle, second", "success, idle, no error"]) {
    await observer.refetch();
    await vi.waitFor(() => expect(shown.at(-1)).toBe(last));
  }
  stop();
  expect([...new Set(shown)]).toEqual(["pending, fetching, no error", "error, idle, first", "error, fetching, first", "error, idle, second", "error, fetching, second", "success, idle, no error"]);
});

it("shows a query that was reset as pending", async () => {
  const cache = new QueryCache();
  keepErrors(cache);
  const client = new QueryClient({ queryCache: cache });
  const observer = new QueryObserver(client, { queryKey: ["nodes"], queryFn: () => Promise.reject(new Error("fails")), retry: false, enabled: false });
  const stop = observer.subscribe(() => undefined);
  await observer.refetch();
  await client.resetQueries({ queryKey: ["nodes"] });
  const fetched = observer.refetch();
  expect(observer.getCurrentResult()).toMatchObject({ status: "pending", fetchStatus: "fetching" });
  await fetched;
  stop();
});
