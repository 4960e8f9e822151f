import { Button, Group, Text, Tooltip } from "@mantine/core";
import { type CSSProperties, type ReactNode, useState } from "react";
import type { ClusterNode } from "@/api/types";
import { UsageBar } from "@/components/Capacity";
import badge from "@/components/StateBadge.module.css";
import classes from "@/components/table.module.css";
import { NODE_LOOKS } from "@/lib/nodes";
import { formatBytes } from "@/lib/units";

/** So many rows at first, and with each "Show more": a thousand at once would be slow to draw. */
const STEP = 50;

interface Props {
  nodes: readonly ClusterNode[];
  /** What an administrator can do with a node; nothing for others. */
  actions?: ((node: ClusterNode) => ReactNode) | undefined;
}

export function NodeTable({ nodes, actions }: Props) {
  const [shown, setShown] = useState(STEP);
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col">State</th>
            <th scope="col">GPUs in use</th>
            <th scope="col">CPUs in use</th>
            <th scope="col">Memory in use</th>
            {actions && (
              <th scope="col">
                <span className="visually-hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {nodes.slice(0, shown).map((node) => (
            <NodeRow key={node.name} node={node}>
              {actions && <td className={classes.num}>{actions(node)}</td>}
            </NodeRow>
          ))}
        </tbody>
      </table>
      {nodes.length > shown && (
        <Group justify="center" p="md">
          <Button variant="default" size="compact-md" onClick={() => setShown((old) => old + STEP)}>
            Show more ({nodes.length - shown} left)
          </Button>
        </Group>
      )}
    </div>
  );
}

function NodeRow({ node, children }: { node: ClusterNode; children: ReactNode }) {
  const about = [...node.partitions, ...node.features.map((feature) => `#${feature}`)].join("  ");
  return (
    <tr data-testid="node-row">
      <td>
        <strong>{node.name}</strong>
        {about !== "" && (
          <Text size="xs" c="dimmed" mt={2}>
            {about}
          </Text>
        )}
      </td>
      <td>
        <NodeState node={node} />
        {node.reason && (
          <Text size="xs" c="dimmed" mt={2}>
            {node.reason}
          </Text>
        )}
      </td>
      <td data-label="GPUs">
        {node.gpus.length === 0 && node.gres.length === 0 && <span className={classes.dim}>none</span>}
        {node.gpus.map((gpu) => (
          <Usage
            key={gpu.type ?? ""}
            used={gpu.used}
            total={gpu.total}
            text={`${gpu.used} of ${gpu.total}${gpu.type ? ` ${gpu.type}` : ""}`}
            label={`GPUs ${gpu.type ?? ""} of ${node.name}`}
          />
        ))}
        {node.gres.map((gres) => (
          <Usage
            key={gres.name}
            used={gres.used}
            total={gres.total}
            text={`${gres.used} of ${gres.total} ${gres.name}`}
            label={`${gres.name} of ${node.name}`}
          />
        ))}
      </td>
      <td data-label="CPUs">
        <Usage
          used={node.cpu_used}
          total={node.cpu_total}
          text={`${node.cpu_used} of ${node.cpu_total}`}
          label={`CPUs of ${node.name}`}
        />
      </td>
      <td data-label="Memory">
        <Usage
          used={node.memory_used_bytes}
          total={node.memory_total_bytes}
          text={`${formatBytes(node.memory_used_bytes)} of ${formatBytes(node.memory_total_bytes)}`}
          label={`Memory of ${node.name}`}
        />
      </td>
      {children}
    </tr>
  );
}

function NodeState({ node }: { node: ClusterNode }) {
  const { label, tone } = NODE_LOOKS[node.state];
  return (
    <Tooltip label={`The scheduler says ${node.scheduler_state ?? ""}`} disabled={node.scheduler_state === null}>
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
