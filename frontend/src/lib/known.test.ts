import { expect, it } from "vitest";
import type { ProjectState } from "@/api/projects";
import type { ClusterNode } from "@/api/types";
import { nodeLook, statesOf } from "@/features/cluster/nodes";
import { healthLook, severityLook } from "@/features/platform/severity";
import { projectState, roleLabel } from "@/features/projects/projects";
import { known } from "./known";

it("returns the entry of a known value only", () => {
  expect(known({ a: 1 }, "a", 0)).toBe(1);
  expect(known({ a: 1 }, "toString", 0)).toBe(0);
});

it("shows values of a newer release as they are", () => {
  expect(nodeLook("hibernating")).toEqual({ label: "hibernating", tone: "neutral" });
  expect(projectState("frozen" as ProjectState)).toEqual({ label: "frozen", tone: "neutral" });
  expect(roleLabel("auditor" as "member")).toBe("auditor");
  expect(healthLook("paused")).toEqual({ label: "paused", tone: "neutral" });
  expect(severityLook("urgent")).toEqual({ label: "urgent", tone: "neutral" });
  const nodes = ["hibernating", "idle", "hibernating"].map((state) => ({ state }) as unknown as ClusterNode);
  expect(statesOf(nodes)).toEqual(["idle", "hibernating"]);
});
