import { Title } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import type { BoundRank, JobPlacement } from "@/api/topology";
import { leavesOf } from "@/lib/switches";
import { type JobBranch, orderOf, ranksText } from "./placement";
import table from "@/components/table.module.css";
import classes from "./Placement.module.css";

/** The same as the picture, as text: the leaf and the ranks of each node in all three orders. */
export function OrderTable({ placement, tree, each }: { placement: JobPlacement; tree: readonly JobBranch[]; each: number }) {
  const { t } = useTranslation();
  const [unfolded, setUnfolded] = useState(false);
  const best = unfolded ? orderOf(placement, "best") : [];
  return (
    <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)} data-testid="placement-values">
      <summary>{t("Values as a table")}</summary>
      {unfolded && (
        <Scrolled label={t("Ranks of each node")}>
          <thead>
            <tr>
              <th scope="col">{t("Node")}</th>
              <th scope="col">{t("Switch")}</th>
              <th scope="col">{t("Given")}</th>
              <th scope="col">{t("Chosen")}</th>
              <th scope="col">{t("Best known")}</th>
            </tr>
          </thead>
          <tbody>
            {leavesOf(tree).flatMap((leaf) =>
              leaf.nodes.map((node) => (
                <tr key={node}>
                  <td>{node}</td>
                  <td data-label={t("Switch")}>{leaf.content === null ? "–" : leaf.name}</td>
                  <td data-label={t("Given")}>{ranksText(placement.given, [node], each)}</td>
                  <td data-label={t("Chosen")}>{ranksText(placement.order, [node], each)}</td>
                  <td data-label={t("Best known")}>{ranksText(best, [node], each)}</td>
                </tr>
              )),
            )}
          </tbody>
        </Scrolled>
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
  const rows = (
    <Scrolled label={t("Rank bindings")}>
      <thead>
        <tr>
          <th scope="col">{t("Rank")}</th>
          <th scope="col">{t("Node")}</th>
          <th scope="col">{t("Cores")}</th>
          <th scope="col">{t("NUMA node")}</th>
          <th scope="col">GPU</th>
          <th scope="col">{t("Network interface")}</th>
        </tr>
      </thead>
      <tbody>
        {bindings.map((binding) => (
          <tr key={binding.rank}>
            <td>{t("Rank {{rank}}", { rank: binding.rank })}</td>
            <td data-label={t("Node")}>{binding.node}</td>
            <td data-label={t("Cores")}>{binding.cores ?? "–"}</td>
            <td data-label={t("NUMA node")}>{binding.numa ?? "–"}</td>
            <td data-label="GPU">{binding.gpu ?? "–"}</td>
            <td data-label={t("Network interface")}>{binding.nic ?? "–"}</td>
          </tr>
        ))}
      </tbody>
    </Scrolled>
  );
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

function Scrolled({ label, children }: { label: string; children: ReactNode }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <div className={table.wrap} tabIndex={0} role="group" aria-label={label}>
      <table className={`${table.table ?? ""} tabular`}>
        <caption className="visually-hidden">{label}</caption>
        {children}
      </table>
    </div>
  );
}
