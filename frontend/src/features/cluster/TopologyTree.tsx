import { ChevronDown, ChevronRight, Network } from "lucide-react";
import type { CSSProperties, KeyboardEvent } from "react";
import { useTranslation } from "react-i18next";
import type { TopologyNode } from "@/api/topology";
import { CLOSED, nodeLook } from "./nodes";
import { branchName, freeText, type NetworkBranch, nodeText, type Totals, type Usage, USAGES, usageOf } from "./topology";
import classes from "./Topology.module.css";

interface Props {
  tree: readonly NetworkBranch[];
  totals: ReadonlyMap<NetworkBranch, Totals>;
  isOpen: (branch: NetworkBranch, level: number) => boolean;
  onFold: (branch: NetworkBranch, open: boolean) => void;
  onSelect: (node: string) => void;
}

const ITEM = '[role="treeitem"]';

/** Switches as an outline that unfolds, and the nodes of each leaf side by side; the arrow keys move in it. */
export function TopologyTree(props: Props) {
  const { t } = useTranslation();
  return (
    <div role="tree" aria-label={t("Switches and nodes")} className={classes.tree} data-testid="topology-tree">
      {props.tree.map((branch, index) => (
        <BranchItem key={branch.name} {...props} branch={branch} level={1} first={index === 0} />
      ))}
    </div>
  );
}

function BranchItem({ branch, level, first = false, ...props }: Props & { branch: NetworkBranch; level: number; first?: boolean }) {
  const { t } = useTranslation();
  const totals = props.totals.get(branch);
  if (totals === undefined) return null;
  const open = props.isOpen(branch, level);
  const fold = () => props.onFold(branch, !open);
  const Chevron = open ? ChevronDown : ChevronRight;
  return (
    <div>
      <div
        role="treeitem"
        aria-level={level}
        aria-expanded={open}
        aria-selected={false}
        tabIndex={first ? 0 : -1}
        className={classes.switch}
        onClick={(event) => {
          event.currentTarget.focus();
          fold();
        }}
        onKeyDown={(event) => moveIn(event, { open, onOpen: fold, onClose: fold, onPress: fold })}
      >
        <Chevron size={15} aria-hidden />
        <Network size={15} aria-hidden />
        <strong className="truncate">{branchName(branch)}</strong>
        <UsageBar totals={totals} />
        <span className={`${classes.free ?? ""} tabular`}>
          {t("{{count}} nodes", { count: totals.nodes })} <span className={classes.gpus}>{freeText(totals)}</span>
          {totals.usage.mine > 0 && <span className="visually-hidden">{t("own jobs on {{count}} nodes", { count: totals.usage.mine })}</span>}
        </span>
      </div>
      {open && branch.below.length > 0 && (
        <div className={classes.below}>
          {branch.below.map((each) => (
            <BranchItem key={each.name} {...props} branch={each} level={level + 1} />
          ))}
        </div>
      )}
      {open && branch.nodes.length > 0 && (
        <div className={classes.nodes}>
          {branch.nodes.map((node) => (
            <NodeItem key={node.name} node={node} level={level + 1} onSelect={props.onSelect} />
          ))}
        </div>
      )}
    </div>
  );
}

function NodeItem({ node, level, onSelect }: { node: TopologyNode; level: number; onSelect: (node: string) => void }) {
  const { t } = useTranslation();
  const text = CLOSED.has(node.state) ? `${nodeText(node)}, ${t(nodeLook(node.state).label)}` : nodeText(node);
  return (
    <div
      role="treeitem"
      aria-label={text}
      aria-level={level}
      aria-selected={false}
      tabIndex={-1}
      className={classes.node}
      data-closed={CLOSED.has(node.state) || undefined}
      style={toneOf(usageOf(node))}
      title={text}
      onClick={(event) => {
        event.currentTarget.focus();
        onSelect(node.name);
      }}
      onKeyDown={(event) => moveIn(event, { open: false, onPress: () => onSelect(node.name) })}
      data-testid="topology-node"
    >
      <span className={`${classes.name ?? ""} truncate`}>{node.name}</span>
      {node.gpus > 0 && <i className={classes.cells} style={{ "--gpus": node.gpus, "--taken": node.gpus - node.free_gpus } as CSSProperties} />}
    </div>
  );
}

/** The nodes of a switch by what they are used for. */
function UsageBar({ totals }: { totals: Totals }) {
  return (
    <span className={classes.bar} aria-hidden>
      {(Object.keys(USAGES) as Usage[]).map(
        (usage) => totals.usage[usage] > 0 && <i key={usage} data-usage={usage} style={{ ...toneOf(usage), flexGrow: totals.usage[usage] }} />,
      )}
    </span>
  );
}

export function Legend() {
  const { t } = useTranslation();
  return (
    <div className={classes.legend} aria-hidden>
      {(Object.keys(USAGES) as Usage[]).map((usage) => (
        <span key={usage}>
          <i data-usage={usage} style={toneOf(usage)} /> {t(USAGES[usage].label)}
        </span>
      ))}
      <span>
        <i className={classes.cells} style={{ ...toneOf("others"), "--gpus": 4, "--taken": 2 } as CSSProperties} /> {t("GPUs: allocated and free")}
      </span>
    </div>
  );
}

function toneOf(usage: Usage): CSSProperties {
  const { tone } = USAGES[usage];
  return { "--tone": `var(--${tone})`, "--tone-soft": `var(--${tone}-soft)` } as CSSProperties;
}

interface Actions {
  open: boolean;
  onOpen?: () => void;
  onClose?: () => void;
  onPress: () => void;
}

/** The keys of a tree: https://www.w3.org/WAI/ARIA/apg/patterns/treeview/ */
function moveIn(event: KeyboardEvent<HTMLElement>, { open, onOpen, onClose, onPress }: Actions) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const item = event.currentTarget;
  const items = [...(item.closest('[role="tree"]')?.querySelectorAll<HTMLElement>(ITEM) ?? [])];
  const at = items.indexOf(item);
  const above = () => items.slice(0, at).findLast((each) => Number(each.ariaLevel) < Number(item.ariaLevel));
  switch (event.key) {
    case "ArrowDown": items[at + 1]?.focus(); break;
    case "ArrowUp": items[at - 1]?.focus(); break;
    case "Home": items[0]?.focus(); break;
    case "End": items.at(-1)?.focus(); break;
    case "ArrowRight": if (open) items[at + 1]?.focus(); else onOpen?.(); break;
    case "ArrowLeft": if (open) onClose?.(); else above()?.focus(); break;
    case "Enter": case " ": onPress(); break;
    default: return;
  }
  event.preventDefault();
}
