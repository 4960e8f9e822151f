import { expect, it } from "vitest";
import { alternativeText, costText, leavesText, someOf, waitText } from "./planned";

it("names few nodes and counts the others", () => {
  expect(someOf(["a", "b"])).toBe("a, b");
  expect(someOf(Array.from({ length: 10 }, (_, index) => `n${index}`))).toBe("n0, n1, n2, n3, n4, n5, n6, n7 and 2 more");
  expect(leavesText([{ name: "leaf0", nodes: 4 }, { name: "leaf1", nodes: 2 }])).toBe("leaf0 (4), leaf1 (2)");
});

it("shows what the order saves", () => {
  expect(costText({ crossings: { given: 8, chosen: 2 }, busiest_uplink: { given: 4, chosen: 1 } })).toBe("8 → 2 crossings, busiest uplink 4 → 1");
  expect(costText({ crossings: { given: 2, chosen: 2 }, busiest_uplink: { given: 1, chosen: null } })).toBe("2 crossings, busiest uplink 1");
  expect(costText({ crossings: null, busiest_uplink: null })).toBeNull();
});

it("says for how long the job waits for leaves", () => {
  expect(waitText({ max_leaves: null, max_leaves_wait_s: null })).toBeNull();
  expect(waitText({ max_leaves: 1, max_leaves_wait_s: null })).toBe("waits for 1 leaf switch without a limit");
  expect(waitText({ max_leaves: 2, max_leaves_wait_s: 600 })).toBe("waits for 2 leaf switches for up to 10\u00a0min");
  expect(alternativeText({ leaves: [{ name: "leaf2", nodes: 4 }], wait_s: 600, score: 12.25 })).toBe("leaf2 (4), in 10\u00a0min, score 12.25");
});
