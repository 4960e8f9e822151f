import { Button, Group, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import type { ClusterNode } from "@/api/types";
import { UsageBar } from "@/components/Capacity";
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
  const [visible, setVisible] = useState(STEP);
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t("Node")}</th>
            <th scope="col">{t("State")}</th>
            <th scope="col">{t("GPUs in use")}</th>
            <th scope="col">{t("CPUs in use")}</th>
            <th scope="col">{t("Memory in use")}</th>
            {actions && (
              <th scope="col">
                <span className="visually-hidden">{t("Actions")}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {nodes.slice(0, visible).map((node) => (
            <NodeRow key={node.name} node={node}>
              {actions && <td className={classes.num}>{actions(node)}</td>}
            </NodeRow>
          ))}
        </tbody>
      </table>
      {nodes.length > visible && (
        <Group justify="center" p="md">
          <Button variant="default" size="compact-md" onClick={() => setVisible((old) => old + STEP)}>
            {t("Show more ({{left}} left)", { left: nodes.length - visible })}
          </Button>
        </Group>
      )}
    </div>
  );
}

function NodeRow({ node, children }: { node: ClusterNode; children: ReactNode }) {
  const { t } = useTranslation();
  const labels = [...node.partitions, ...node.features.map((feature) => `#${feature}`)].join("  ");
  return (
    <tr data-testid="node-row">
      <td>
        <Link to="/cluster/nodes/$name" params={{ name: node.name }} className={classes.plainLink}>
          {node.name}
        </Link>
        {labels !== "" && (
          <Text size="xs" c="dimmed" mt={2}>
            {labels}
          </Text>
        )}
      </td>
      <td>
        <NodeStateBadge node={node} />
        {node.reason && (
          <Text size="xs" c="dimmed" mt={2}>
            {node.reason}
          </Text>
        )}
      </td>
      <td data-label="GPUs">
        {node.gpus.length === 0 && node.gres.length === 0 && <span className={classes.dim}>{t("none")}</span>}
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
      </td>
      <td data-label="CPUs">
        <Usage
          used={node.cpu_used}
          total={node.cpu_total}
          text={t("{{used}} of {{total}}", { used: node.cpu_used, total: node.cpu_total })}
          label={t("{{what}} of {{name}}", { what: t("CPUs"), name: node.name })}
        />
      </td>
      <td data-label={t("Memory")}>
        <Usage
          used={node.memory_used_bytes}
          total={node.memory_total_bytes}
          text={t("{{used}} of {{total}}", { used: formatBytes(node.memory_used_bytes), total: formatBytes(node.memory_total_bytes) })}
          label={t("{{what}} of {{name}}", { what: t("Memory"), name: node.name })}
        />
      </td>
      {children}
    </tr>
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
