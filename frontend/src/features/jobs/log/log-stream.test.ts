import { afterEach, expect, test, vi } from "vitest";
import { fetchWholeLog } from "./log-stream";

afterEach(() => vi.unstubAllGlobals());

test("log of a task is requested by the task's index", async () => {
  const requested: string[] = [];
  vi.stubGlobal("fetch", (input: RequestInfo | URL) => {
    requested.push(input instanceof Request ? input.url : String(input));
    return Promise.resolve(new Response("said", { headers: { "X-Log-Size": "4" } }));
  });
  await fetchWholeLog("1a2b", 3);
  await fetchWholeLog("1a2b");
  expect(requested.map((url) => new URL(url, "http://portal").searchParams.get("task"))).toEqual(["3", null]);
});
