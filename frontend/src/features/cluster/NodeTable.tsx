import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { ClusterNode } from "@/api/types";
import { UsageBar } from "@/components/Capacity";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { formatBytes } from "@/lib/units";
import { NodeStateBadge } from "./NodeStateBadge";
import classes from "@/components/table.module.css";

/** Rows visible at first and added by each "Show more": a thousand at once would render slowly. */
const STEP = 50;

interface Props {
  nodes: readonly ClusterNode[];
  /** Actions of administrators on a node; undefined for other users. */
  actions?: ((node: ClusterNode) => ReactNode) | undefined;
}

export function NodeTable({ nodes, actions }: Props) {
  const { t } = useTranslation();
  const columns: Column<ClusterNode>[] = [
    {
      header: t("Node"),
      cell: ({ name, partitions, features }) => (
        <>
          <Link to="/cluster/nodes/$name" params={{ name }} className={classes.plainLink}>
            {name}
          </Link>
          <Note>{[...partitions, ...features.map((feature) => `#${feature}`)].join("  ")}</Note>
        </>
      ),
    },
    {
      header: t("State"),
      label: null,
      cell: (node) => (
        <>
          <NodeStateBadge node={node} />
          <Note>{node.reason}</Note>
        </>
      ),
    },
    { header: t("GPUs in use"), label: "GPUs", cell: (node) => <Devices node={node} /> },
    {
      header: t("CPUs in use"),
      label: "CPUs",
      cell: ({ name, cpu_used, cpu_total }) => (
        <Usage used={cpu_used} total={cpu_total} text={t("{{used}} of {{total}}", { used: cpu_used, total: cpu_total })} label={t("{{what}} of {{name}}", { what: t("CPUs"), name })} />
      ),
    },
    {
      header: t("Memory in use"),
      label: t("Memory"),
      cell: ({ name, memory_used_bytes: used, memory_total_bytes: total }) => (
        <Usage used={used} total={total} text={t("{{used}} of {{total}}", { used: formatBytes(used), total: formatBytes(total) })} label={t("{{what}} of {{name}}", { what: t("Memory"), name })} />
      ),
    },
  ];
  return <DataTable columns={columns} rows={nodes} rowKey={({ name }) => name} rowTestId="node-row" actions={actions} step={STEP} />;
}

/** The GPUs and the other generic resources of a node. */
function Devices({ node }: { node: ClusterNode }) {
  const { t } = useTranslation();
  if (node.gpus.length === 0 && node.gres.length === 0) return <span className={classes.dim}>{t("none")}</span>;
  return (
    <>
      {node.gpus.map((gpu) => (
        <Usage
          key={gpu.type ?? ""}
          used={gpu.used}
          total={gpu.total}
          text={t("{{used}} of {{total}}", { used: gpu.used, total: `${gpu.total} ${gpu.type ?? ""}`.trim() })}
          label={t("{{what}} of {{name}}", { what: gpu.type ?? t("GPUs"), name: node.name })}
        />
      ))}
      {node.gres.map((gres) => (
        <Usage
          key={gres.name}
          used={gres.used}
          total={gres.total}
          text={t("{{used}} of {{total}}", { used: gres.used, total: `${gres.total} ${gres.name}` })}
          label={t("{{what}} of {{name}}", { what: gres.name, name: node.name })}
        />
      ))}
    </>
  );
}

function Note({ children }: { children: string | null }) {
  if (!children) return null;
  return (
    <Text size="xs" c="dimmed" mt={2}>
      {children}
    </Text>
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
