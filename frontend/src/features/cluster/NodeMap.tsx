import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import type { ClusterNode } from "@/api/types";
import { busyShare, CLOSED, nodeLook, type NodeState, statesOf } from "./nodes";
import classes from "./NodeMap.module.css";

interface Props {
  nodes: readonly ClusterNode[];
  onPick: (name: string) => void;
  /** Share of a node, 0 to 1, that its square shows. */
  share?: (node: ClusterNode) => number;
}

/** Load of a state's square in the legend; full where it is not listed. */
const EXAMPLE: Partial<Record<NodeState, number>> = { idle: 0, mixed: 0.5 };

/** All nodes, one square each; the table below has the same data as text. */
export function NodeMap({ nodes, onPick, share = busyShare }: Props) {
  const { t } = useTranslation();
  const cell = nodes.length > 256 ? 14 : nodes.length > 64 ? 20 : 30;
  return (
    <div aria-hidden data-testid="node-map">
      <div className={classes.map} style={{ "--cell": `${cell}px` } as CSSProperties}>
        {nodes.map((node) => (
          <button
            key={node.name}
            type="button"
            tabIndex={-1}
            className={CLOSED.has(node.state) ? `${classes.node ?? ""} ${classes.closed ?? ""}` : classes.node}
            style={{ ...tones(node.state), "--busy": share(node) } as CSSProperties}
            title={`${node.name}: ${t(nodeLook(node.state).label)}${node.reason === null ? "" : `, ${node.reason}`}`}
            onClick={() => onPick(node.name)}
          />
        ))}
      </div>
      <div className={classes.legend}>
        {statesOf(nodes).map((state) => (
          <span key={state}>
            <i
              className={`${classes.node ?? ""} ${classes.swatch ?? ""} ${CLOSED.has(state) ? (classes.closed ?? "") : ""}`}
              style={{ ...tones(state), "--busy": EXAMPLE[state] ?? 1 } as CSSProperties}
            />
            {t(nodeLook(state).label)} {nodes.filter((node) => node.state === state).length}
          </span>
        ))}
        <span>
          <i className={`${classes.swatch ?? ""} ${classes.scale ?? ""}`} />
          {t("Fill: allocated share, 0–100 %")}
        </span>
        {nodes.some((node) => CLOSED.has(node.state)) && (
          <span>
            <i className={`${classes.node ?? ""} ${classes.swatch ?? ""} ${classes.closed ?? ""}`} style={tones("unknown")} />
            {t("Striped: accepts no new jobs")}
          </span>
        )}
      </div>
    </div>
  );
}

function tones(state: NodeState): CSSProperties {
  const { tone } = nodeLook(state);
  return { "--tone": `var(--${tone})`, "--tone-soft": `var(--${tone}-soft)` } as CSSProperties;
}
