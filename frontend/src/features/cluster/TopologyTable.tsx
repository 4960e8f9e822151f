import { useState } from "react";
import { useTranslation } from "react-i18next";
import { branchName, type NetworkBranch, USAGES, usageOf } from "./topology";
import { nodeLook } from "./nodes";
import table from "@/components/table.module.css";
import classes from "./Topology.module.css";

/** The same as the picture, as text: a line for each node. */
export function TopologyTable({ leaves }: { leaves: readonly NetworkBranch[] }) {
  const { t } = useTranslation();
  const [unfolded, setUnfolded] = useState(false);
  return (
    <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)} data-testid="topology-values">
      <summary>{t("Values as a table")}</summary>
      {unfolded && (
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
        <div className={table.wrap} tabIndex={0} role="group" aria-label={t("Switches and nodes")}>
          <table className={`${table.table ?? ""} tabular`}>
            <caption className="visually-hidden">{t("Switches and nodes")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("Node")}</th>
                <th scope="col">{t("Switch")}</th>
                <th scope="col">{t("State")}</th>
                <th scope="col">{t("Usage")}</th>
                <th scope="col">{t("Free GPUs")}</th>
              </tr>
            </thead>
            <tbody>
              {leaves.flatMap((leaf) =>
                leaf.nodes.map((node) => (
                  <tr key={node.name}>
                    <td>{node.name}</td>
                    <td data-label={t("Switch")}>{branchName(leaf)}</td>
                    <td data-label={t("State")}>{t(nodeLook(node.state).label)}</td>
                    <td data-label={t("Usage")}>{t(USAGES[usageOf(node)].label)}</td>
                    <td data-label={t("Free GPUs")}>{node.gpus > 0 ? t("{{free}} of {{total}} free", { free: node.free_gpus, total: node.gpus }) : "–"}</td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
