import { Alert, Button, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Info, Network, Search, TriangleAlert } from "lucide-react";
import { useDeferredValue, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ClusterTopology, topologyQuery } from "@/api/topology";
import { CommandLine } from "@/components/CommandLine";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import { leavesOf } from "@/lib/switches";
import { NodeDrawer } from "./NodeDrawer";
import { foundIn, isUnfolded, totalsIn } from "./topology";
import { Legend, TopologyTree } from "./TopologyTree";
import { TopologyTable } from "./TopologyTable";
import classes from "./Topology.module.css";

/** The switches of the cluster with their nodes and GPUs. */
export default function TopologyTab() {
  const query = useQuery(topologyQuery);
  const topology = query.data;
  return (
    <div className="card" data-testid="topology">
      {query.isPending ? (
        <TableSkeleton rows={8} />
      ) : topology === undefined ? (
        <PageError error={query.error} onRetry={() => query.refetch()} />
      ) : topology.switches.length === 0 ? (
        <NoTopology topology={topology} />
      ) : (
        <LoadedTopology topology={topology} />
      )}
    </div>
  );
}

/** What an administrator can do where no source describes the network. */
function NoTopology({ topology }: { topology: ClusterTopology }) {
  const { t } = useTranslation();
  return (
    <>
      <EmptyState icon={Network} title={t("The topology of the network is not known")} action={<CommandLine command="aitne admin topology import topology.conf" />}>
        {t("The scheduler describes no switches. An administrator imports them from a file of Slurm: topology.conf, topology.yaml or the output of scontrol show topology.")}
      </EmptyState>
      <Sources topology={topology} />
    </>
  );
}

function LoadedTopology({ topology }: { topology: ClusterTopology }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [selected, setSelected] = useState<string | null>(null);
  /** What was folded and unfolded by hand, by the name of the switch. */
  const [changed, setChanged] = useState<ReadonlyMap<string, boolean>>(new Map());
  const search = useDeferredValue(text);
  const tree = useMemo(() => foundIn(topology, search), [topology, search]);
  const totals = useMemo(() => totalsIn(tree), [tree]);
  const leaves = useMemo(() => leavesOf(tree), [tree]);
  const leafNames = new Set(leaves.map(({ name }) => name));
  const found = leaves.reduce((sum, leaf) => sum + leaf.nodes.length, 0);
  const node = topology.nodes.find(({ name }) => name === selected);
  const setAll = (open: boolean) => setChanged(new Map<string, boolean>([...topology.switches.map(({ name }): [string, boolean] => [name, open || !leafNames.has(name)]), ["", open]]));
  return (
    <>
      <div className={classes.head} role="search">
        <TextInput
          placeholder={t("Name of a switch or node")}
          aria-label={t("Search switches and nodes")}
          leftSection={<Search size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          className={classes.search}
          data-testid="topology-search"
        />
        <Text size="sm" c="dimmed" role="status">
          {found === topology.nodes.length ? t("{{count}} nodes", { count: found }) : t("{{found}} of {{count}} nodes", { found, count: topology.nodes.length })}
        </Text>
        <span className={classes.fold}>
          <Button variant="default" size="compact-sm" onClick={() => setAll(true)} data-testid="topology-unfold">
            {t("Unfold all")}
          </Button>
          <Button variant="default" size="compact-sm" onClick={() => setAll(false)}>
            {t("Fold all")}
          </Button>
        </span>
      </div>
      <Problems topology={topology} />
      {tree.length === 0 ? (
        <EmptyState icon={Search} title={t("No matching nodes")}>
          {t("Try another name.")}
        </EmptyState>
      ) : (
        <TopologyTree
          tree={tree}
          totals={totals}
          isOpen={(branch, level) => changed.get(branch.name) ?? isUnfolded(branch, found, leaves.length, level)}
          onFold={(branch, open) => setChanged((old) => new Map(old).set(branch.name, open))}
          onSelect={setSelected}
        />
      )}
      <Legend />
      <TopologyTable leaves={leaves} />
      <Sources topology={topology} />
      <NodeDrawer topology={topology} node={node} onClose={() => setSelected(null)} />
    </>
  );
}

/** At most so many names are in a message. */
const MOST_NAMED = 8;

/** Nodes that the topology lacks. */
function Problems({ topology }: { topology: ClusterTopology }) {
  const { t } = useTranslation();
  const { unknown_nodes: unknown } = topology;
  if (unknown.length === 0) return null;
  const more = unknown.length - MOST_NAMED;
  return (
    <Alert color="gray" icon={<Info size={18} />} mx={20} mb="sm" data-testid="topology-unknown">
      {t("The topology does not contain {{count}} nodes of the scheduler:", { count: unknown.length })} {unknown.slice(0, MOST_NAMED).join(", ")}
      {more > 0 && ` ${t("and {{count}} more", { count: more })}`}. {t("Such nodes are treated as one more leaf.")}
    </Alert>
  );
}

/** Where the topology comes from, and what is wrong with it. */
function Sources({ topology }: { topology: ClusterTopology }) {
  const { t } = useTranslation();
  if (topology.sources.length === 0) return null;
  return (
    <section className={classes.sources} aria-label={t("Sources of the topology")}>
      <ul>
        {topology.sources.map((source) => (
          <li key={`${source.origin} ${source.name}`}>
            <span className="mono">{source.name}</span> <RelativeTime at={source.read_at} />
            {source.problem !== null && (
              <span className={classes.problem}>
                <TriangleAlert size={14} aria-hidden /> <ServerText>{source.problem}</ServerText>
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
