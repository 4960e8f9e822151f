import { describe, expect, it } from "vitest";
import { hostOf } from "./ssh-host";

const id = "0190a005-4c1d-7d2e-9f00-0a1b2c3d4e5f";

describe("the host name of a job", () => {
  it.each([
    ["my-training", null, "my-training.aitne"],
    ["two words", null, "0190a005.aitne"],
    ["-oProxyCommand=x", null, "0190a005.aitne"],
    ["a.b", null, "0190a005.aitne"],
    ["sweep", 3, "00000abc_3.aitne"],
  ])("%s, task %s", (name, task, host) => {
    expect(hostOf({ id, name, array_job_id: task === null ? null : "00000abc-0000", array_task_id: task })).toBe(host);
  });
});
