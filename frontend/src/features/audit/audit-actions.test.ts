import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { AUDIT_ACTIONS, auditAction } from "./audit-actions";

/** Operations that the audit log leaves out: they change nothing, or Alertmanager calls them. */
const LEFT_OUT = ["plan_job", "plan_ranks", "import_job", "look_up_device_login", "preview_invitation", "receive_alerts", "report_activity"];

it("has a label for each operation that the audit log records", () => {
  const { paths } = JSON.parse(readFileSync("openapi.json", "utf8")) as { paths: Record<string, Record<string, { operationId: string; deprecated?: boolean }>> };
  const changes = Object.values(paths)
    .flatMap((path) => Object.entries(path))
    .filter(([method, operation]) => !["get", "head"].includes(method) && operation.deprecated !== true)
    .map(([, operation]) => operation.operationId)
    .filter((id) => !LEFT_OUT.includes(id));
  expect(changes.filter((id) => !(id in AUDIT_ACTIONS))).toEqual([]);
});

it("shows an unknown action as it is", () => {
  expect(auditAction("drain_node")).toBe("Drain node");
  expect(auditAction("launch_rocket")).toBe("launch_rocket");
});
