import { Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { BoundRank, JobPlacement } from "@/api/topology";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { leavesOf } from "@/lib/switches";
import { type JobBranch, orderOf, ranksText } from "./placement";
import classes from "./Placement.module.css";

/** The same as the picture, as text: the leaf and the ranks of each node in all three orders. */
export function OrderTable({ placement, tree, each }: { placement: JobPlacement; tree: readonly JobBranch[]; each: number }) {
  const { t } = useTranslation();
  const [unfolded, setUnfolded] = useState(false);
  const best = unfolded ? orderOf(placement, "best") : [];
  const columns: Column<{ node: string; leaf: JobBranch }>[] = [
    { header: t("Node"), cell: ({ node }) => node },
    { header: t("Switch"), cell: ({ leaf }) => (leaf.content === null ? "–" : leaf.name) },
    { header: t("Given"), cell: ({ node }) => ranksText(placement.given, [node], each) },
    { header: t("Chosen"), cell: ({ node }) => ranksText(placement.order, [node], each) },
    { header: t("Best known"), cell: ({ node }) => ranksText(best, [node], each) },
  ];
  return (
    <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)} data-testid="placement-values">
      <summary>{t("Values as a table")}</summary>
      {unfolded && (
        <DataTable
          caption={t("Ranks of each node")}
          scrolls
          columns={columns}
          rows={leavesOf(tree).flatMap((leaf) => leaf.nodes.map((node) => ({ node, leaf })))}
          rowKey={({ node }) => node}
        />
      )}
    </details>
  );
}

/** More bindings are shown on request. */
const MOST_SHOWN = 16;

/** The cores, the NUMA node, the GPU and the network interface of each rank. */
export function BindingTable({ bindings }: { bindings: readonly BoundRank[] }) {
  const { t } = useTranslation();
  const many = bindings.length > MOST_SHOWN;
  const [unfolded, setUnfolded] = useState(!many);
  const columns: Column<BoundRank>[] = [
    { header: t("Rank"), cell: ({ rank }) => t("Rank {{rank}}", { rank }) },
    { header: t("Node"), cell: ({ node }) => node },
    { header: t("Cores"), cell: ({ cores }) => cores ?? "–" },
    { header: t("NUMA node"), cell: ({ numa }) => numa ?? "–" },
    { header: "GPU", cell: ({ gpu }) => gpu ?? "–" },
    { header: t("Network interface"), cell: ({ nic }) => nic ?? "–" },
  ];
  const rows = <DataTable caption={t("Rank bindings")} scrolls columns={columns} rows={bindings} rowKey={({ rank }) => rank} />;
  if (many) {
    return (
      <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)} data-testid="placement-bindings">
        <summary>{t("Bindings of {{count}} ranks", { count: bindings.length })}</summary>
        {unfolded && rows}
      </details>
    );
  }
  return (
    <section className={classes.values} aria-labelledby="bindings-title" data-testid="placement-bindings">
      <Title order={2} size="h6" id="bindings-title">
        {t("Bindings")}
      </Title>
      {rows}
    </section>
  );
}
