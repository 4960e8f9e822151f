import { describe, expect, it } from "vitest";
import { messageOf, problemFrom, unreachable } from "./problem";

describe("problemFrom", () => {
  it("reads a problem document", () => {
    const problem = problemFrom(
      429,
      { code: "rate_limited", title: "Too many attempts", detail: "Wait.", problems: [{ field: "a", message: "b", allowed: "c" }] },
      new Headers({ "Retry-After": "45" }),
    );
    expect(problem).toMatchObject({ status: 429, code: "rate_limited", message: "Wait.", retryAfterS: 45, unreachable: false });
    expect(problem.problems).toEqual([{ field: "a", message: "b", allowed: "c", value: null }]);
  });

  it.each([undefined, "<html>bad gateway</html>", [], { problems: "x" }])("makes sense of %j too", (body) => {
    const problem = problemFrom(502, body, new Headers());
    expect(problem.unreachable).toBe(true);
    expect(problem.message).not.toBe("");
    expect(problem.problems).toEqual([]);
    expect(problem.retryAfterS).toBeNull();
  });
});

it("has a sentence for everything", () => {
  expect(messageOf(unreachable())).toContain("does not answer");
  expect(messageOf("x")).toContain("went wrong");
});
