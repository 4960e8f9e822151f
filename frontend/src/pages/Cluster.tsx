import { Alert, Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Clock, Server } from "lucide-react";
import type { CSSProperties } from "react";
import { nodesQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { CapacityRow, UsageBar } from "@/components/Capacity";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import badge from "@/components/StateBadge.module.css";
import classes from "@/components/table.module.css";
import { capacityOf } from "@/lib/capacity";
import type { Tone } from "@/lib/states";
import { formatBytes } from "@/lib/units";

export function ClusterPage() {
  const query = useQuery(nodesQuery);
  const nodes = query.data;
  return (
    <>
      <PageTitle title="Cluster">
        {nodes?.as_of && (
          <Text size="sm" c="dimmed">
            Seen <RelativeTime at={nodes.as_of} />
          </Text>
        )}
      </PageTitle>
      {nodes?.stale && (
        <Alert color="orange" icon={<Clock size={18} />} mb="md" title="This may be out of date">
          The scheduler has not answered for a while. What runs goes on; the figures below are the last known ones.
        </Alert>
      )}
      {nodes && nodes.items.length > 0 && <Totals nodes={nodes.items} />}
      <div className="card" style={{ overflow: "hidden" }}>
        {query.isPending && <TableSkeleton rows={4} />}
        {query.isError && !nodes && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {nodes?.items.length === 0 && (
          <EmptyState icon={Server} title="No node has reported yet">
            The controller asks the scheduler for its nodes every few seconds. If this stays empty, an administrator
            should look at the controller&apos;s log.
          </EmptyState>
        )}
        {nodes && nodes.items.length > 0 && <NodeTable nodes={nodes.items} />}
      </div>
    </>
  );
}

function Totals({ nodes }: { nodes: ClusterNode[] }) {
  const { cpu, memory, gpus } = capacityOf(nodes);
  const rows = [
    { title: "CPUs", ...cpu, free: `${cpu.total - cpu.used} of ${cpu.total} free` },
    {
      title: "Memory",
      ...memory,
      free: `${formatBytes(memory.total - memory.used)} of ${formatBytes(memory.total)} free`,
    },
    ...[...gpus].map(([type, amount]) => ({
      title: type === "GPU" ? "GPUs" : `GPUs ${type}`,
      ...amount,
      free: `${amount.total - amount.used} of ${amount.total} free`,
    })),
  ];
  return (
    <div
      style={{ display: "grid", gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 240px), 1fr))", gap: 14, marginBottom: 20 }}
    >
      {rows.map((row) => (
        <div key={row.title} className="card" style={{ padding: "16px 20px" }}>
          <CapacityRow {...row} />
        </div>
      ))}
    </div>
  );
}

const NODE_LOOKS: Record<ClusterNode["state"], { label: string; tone: Tone }> = {
  idle: { label: "Idle", tone: "good" },
  mixed: { label: "Partly used", tone: "active" },
  allocated: { label: "Fully used", tone: "active" },
  drained: { label: "Drained", tone: "warn" },
  down: { label: "Down", tone: "bad" },
  unknown: { label: "Unknown", tone: "neutral" },
};

function NodeState({ node }: { node: ClusterNode }) {
  const { label, tone } = NODE_LOOKS[node.state];
  return (
    <Tooltip label={node.reason ?? ""} disabled={node.reason === null}>
      <span
        className={badge.badge}
        style={{ "--tone": `var(--${tone})`, "--tone-soft": `var(--${tone}-soft)` } as CSSProperties}
      >
        <span className={badge.dot} />
        {label}
      </span>
    </Tooltip>
  );
}

function NodeTable({ nodes }: { nodes: ClusterNode[] }) {
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col">CPUs in use</th>
            <th scope="col">Memory in use</th>
            <th scope="col">GPUs in use</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <tr key={node.name} data-testid="node-row">
              <td>
                <strong>{node.name}</strong>
              </td>
              <td>
                <NodeState node={node} />
                {node.reason && (
                  <Text size="xs" c="dimmed" mt={2}>
                    {node.reason}
                  </Text>
                )}
              </td>
              <td data-label="CPUs">
                <Usage used={node.cpu_used} total={node.cpu_total} text={`${node.cpu_used} of ${node.cpu_total}`} label={`CPUs of ${node.name}`} />
              </td>
              <td data-label="Memory">
                <Usage
                  used={node.memory_used_bytes}
                  total={node.memory_total_bytes}
                  text={`${formatBytes(node.memory_used_bytes)} of ${formatBytes(node.memory_total_bytes)}`}
                  label={`Memory of ${node.name}`}
                />
              </td>
              <td data-label="GPUs">
                {node.gpus.length === 0 ? (
                  <span className={classes.dim}>none</span>
                ) : (
                  node.gpus.map((gpu) => (
                    <Usage
                      key={gpu.type ?? ""}
                      used={gpu.used}
                      total={gpu.total}
                      text={`${gpu.used} of ${gpu.total}${gpu.type ? ` ${gpu.type}` : ""}`}
                      label={`GPUs ${gpu.type ?? ""} of ${node.name}`}
                    />
                  ))
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Usage({ used, total, text, label }: { used: number; total: number; text: string; label: string }) {
  return (
    <div style={{ minWidth: 130, maxWidth: 240, width: "100%" }}>
      <span className="tabular" style={{ fontSize: 13 }}>
        {text}
      </span>
      <UsageBar used={used} total={total} label={label} thin />
    </div>
  );
}
