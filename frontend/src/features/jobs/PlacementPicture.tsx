import { Network } from "lucide-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import { nodesBelow } from "@/lib/switches";
import { type Arc, arcsOf, type JobBranch, type Line, ranksText, uplinkLoads } from "./placement";
import classes from "./Placement.module.css";

interface Props {
  lines: readonly Line[];
  /** Whether the nodes are folded into their leaves. */
  folded: boolean;
  tree: readonly JobBranch[];
  order: readonly string[];
  /** Number of ranks on each node. */
  each: number;
  /** Whether the ring is drawn. */
  ring: boolean;
  /** The load of the busiest uplink as the platform counts it; null: unknown. */
  busiest: number | null;
}

const LINE_PX = 28;
const RING_PX = 200;

/** Switches and nodes from top to bottom, the numbers of the ranks beside them, and an arc from each to the next. */
export function PlacementPicture({ lines, folded, tree, order, each, ring, busiest }: Props) {
  const { t } = useTranslation();
  const arcs = ring ? arcsOf(order, lines) : [];
  const loads = uplinkLoads(order, tree, busiest);
  const marks = loads.size > 0 && busiest !== 0;
  const height = lines.length * LINE_PX;
  return (
    <div>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <div className={classes.picture} tabIndex={0} role="group" aria-label={t("Ranks on the switches")} data-testid="placement-picture">
        <div className={classes.lines} style={{ "--line-height": `${LINE_PX}px` } as CSSProperties}>
          {lines.map(({ key, level, branch, node, above }) => {
            const load = loads.get(branch.name) ?? 0;
            const nodes = node === null ? branch.nodes : [node];
            const isSwitch = node === null;
            const below = folded || branch.nodes.length === 0 ? nodesBelow(branch).length : 0;
            return (
              <div key={key} className={classes.line} data-switch={isSwitch || undefined} data-node={node ?? undefined} style={{ "--level": level } as CSSProperties}>
                {isSwitch && <Network size={14} aria-hidden />}
                <span className="truncate">{isSwitch && branch.content === null ? t("Without a switch") : (node ?? branch.name)}</span>
                {isSwitch && ring && above >= 0 && load > 0 && (
                  <span className={classes.load} data-busiest={(marks && load === busiest) || undefined}>
                    {t("uplink {{load}}", { load })}
                  </span>
                )}
                {isSwitch && below > 0 && <span className={`${classes.load ?? ""} ${classes.count ?? ""}`}>{t("{{count}} nodes", { count: below })}</span>}
                {nodes.length > 0 && (!isSwitch || folded) && (
                  <b className="tabular">
                    <span className="visually-hidden">{t("Ranks")} </span>
                    {ranksText(order, nodes, each)}
                  </b>
                )}
              </div>
            );
          })}
        </div>
        {ring && (
          <svg viewBox={`0 0 ${RING_PX} ${height}`} height={height} preserveAspectRatio="none" className={classes.ring} aria-hidden>
            {arcs.map((arc) => (
              <path key={`${arc.from} ${arc.to}`} d={arcPath(arc, lines.length)} data-from={lines[arc.from]?.node} data-to={lines[arc.to]?.node} data-crosses={arc.crosses || undefined} style={{ strokeWidth: Math.min(6, (arc.crosses ? 1.6 : 1.2) + Math.log2(arc.count)) }} />
            ))}
          </svg>
        )}
      </div>
      {ring && (
        <div className={classes.legend} aria-hidden>
          <span>
            <i data-crosses /> {t("Next rank on another leaf")}
          </span>
          <span>
            <i /> {t("Next rank on the same leaf")}
          </span>
          {marks && (
            <span>
              <em /> {t("Busiest uplink")}
            </span>
          )}
        </div>
      )}
    </div>
  );
}

/** A curve to the right between two lines, the wider the further they are apart. */
function arcPath({ from, to }: Arc, lines: number): string {
  const middle = (line: number) => (line + 0.5) * LINE_PX;
  const width = 24 + (RING_PX * 1.3 - 30) * Math.sqrt(Math.abs(to - from) / Math.max(1, lines - 1));
  return `M2 ${middle(from)} C${width.toFixed(1)} ${middle(from)} ${width.toFixed(1)} ${middle(to)} 2 ${middle(to)}`;
}
