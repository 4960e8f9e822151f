import { expect, it } from "vitest";
import { shortTarget, targetOf } from "./audit-target";

const JOB = "502aaa63-16e8-479f-9322-de27b14bf20b";

it("names a job, with its ID beside", () => {
  expect(targetOf({ object: JOB, details: {} }, { [JOB]: "train" })).toEqual({ name: "train", id: JOB, rest: "", isJob: true });
});

it("names what has an ID by the name that was recorded", () => {
  expect(targetOf({ object: "78a3e21426dc32ec", details: { name: "New image" } }, {})?.name).toBe("New image");
  expect(targetOf({ object: null, details: { name: "laptop" } }, {})?.name).toBe("laptop");
  expect(targetOf({ object: "vision/78a3e21426dc32ec", details: {} }, {})?.name).toBe("vision");
});

it("has no name for what only has an ID", () => {
  expect(targetOf({ object: JOB, details: {} }, {})).toEqual({ name: null, id: JOB, rest: "", isJob: false });
  expect(shortTarget(JOB)).toBe("502aaa63");
  expect(shortTarget("wh_5f2d1c0b9a8e7d6c")).toBe("wh_5f2d1c0b");
});

it("shows the names of users, projects and versions unchanged", () => {
  for (const object of ["jonas", "speech/root", "librispeech/1", "WANDB_API_KEY"]) expect(targetOf({ object, details: {} }, {})).toMatchObject({ name: object, id: null });
  expect(targetOf({ object: null, details: {} }, {})).toBeNull();
});
