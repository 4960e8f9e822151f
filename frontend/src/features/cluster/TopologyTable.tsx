import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { TopologyNode } from "@/api/topology";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { branchName, type NetworkBranch, USAGES, usageOf } from "./topology";
import { nodeLook } from "./nodes";
import classes from "./Topology.module.css";

/** The same as the picture, as text: a line for each node. */
export function TopologyTable({ leaves }: { leaves: readonly NetworkBranch[] }) {
  const { t } = useTranslation();
  const [unfolded, setUnfolded] = useState(false);
  const columns: Column<{ node: TopologyNode; leaf: NetworkBranch }>[] = [
    { header: t("Node"), cell: ({ node }) => node.name },
    { header: t("Switch"), cell: ({ leaf }) => branchName(leaf) },
    { header: t("State"), cell: ({ node }) => t(nodeLook(node.state).label) },
    { header: t("Usage"), cell: ({ node }) => t(USAGES[usageOf(node)].label) },
    { header: t("Free GPUs"), cell: ({ node }) => (node.gpus > 0 ? t("{{free}} of {{total}} free", { free: node.free_gpus, total: node.gpus }) : "–") },
  ];
  return (
    <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)} data-testid="topology-values">
      <summary>{t("Values as a table")}</summary>
      {unfolded && (
        <DataTable
          caption={t("Switches and nodes")}
          scrolls
          columns={columns}
          rows={leaves.flatMap((leaf) => leaf.nodes.map((node) => ({ node, leaf })))}
          rowKey={({ node }) => node.name}
        />
      )}
    </details>
  );
}
