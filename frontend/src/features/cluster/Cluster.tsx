import { Group, Select, Tabs, Text } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Network, Search, Server } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { CapacityRow } from "@/components/Capacity";
import { EmptyState } from "@/components/EmptyState";
import { TableSkeleton } from "@/components/TableSkeleton";
import { formatBytes } from "@/lib/units";
import { capacityOf } from "./capacity";
import { LoadPanel } from "./LoadPanel";
import { NodeActions } from "./NodeActions";
import { NodeMap } from "./NodeMap";
import { filterNodes, NO_FILTER, type NodeFilter, partitionsOf } from "./nodes";
import { NodeFilterFields, NodesFrame, NodesTitle } from "./NodesFrame";
import { NodeTable } from "./NodeTable";

const TopologyTab = lazy(() => import("./TopologyTab"));

export function ClusterPage() {
  const { t } = useTranslation();
  const { tab = "nodes" } = useSearch({ from: "/shell/cluster" });
  const navigate = useNavigate({ from: "/cluster" });
  return (
    <>
      <NodesTitle title={t("Cluster")} />
      <Tabs value={tab} onChange={(next) => void navigate({ search: next === "topology" ? { tab: next } : {}, replace: true })} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="nodes" leftSection={<Server size={15} />}>
            {t("Nodes")}
          </Tabs.Tab>
          <Tabs.Tab value="topology" leftSection={<Network size={15} />} data-testid="tab-topology">
            {t("Topology")}
          </Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="nodes">
          <NodesFrame above={(nodes) => <Totals nodes={nodes} />}>{(nodes) => <Nodes nodes={nodes} />}</NodesFrame>
          <LoadPanel />
        </Tabs.Panel>
        <Tabs.Panel value="topology">
          <Suspense
            fallback={
              <div className="card">
                <TableSkeleton rows={8} />
              </div>
            }
          >
            <TopologyTab />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </>
  );
}

/** Number of nodes from which the map is shown above the table. */
const MAP_FROM = 9;

function Nodes({ nodes }: { nodes: readonly ClusterNode[] }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const canDrain = me.user.role === "admin" && me.platform.can_drain;
  const [filter, setFilter] = useState<NodeFilter>(NO_FILTER);
  const matching = useMemo(() => filterNodes(nodes, filter), [nodes, filter]);
  const set = (change: Partial<NodeFilter>) => setFilter((old) => ({ ...old, ...change }));
  const partitions = partitionsOf(nodes);
  const few = nodes.length < MAP_FROM && partitions.length < 2;
  return (
    <>
      {!few && (
        <Group p="md" gap="sm" wrap="wrap" role="search">
          <NodeFilterFields nodes={nodes} filter={filter} onChange={set} />
          <Select
            aria-label={t("Partition")}
            placeholder={t("Any partition")}
            data={partitions}
            value={filter.partition}
            onChange={(partition) => set({ partition })}
            clearable
            w={170}
          />
          <Text size="sm" c="dimmed" role="status">
            {matching.length === nodes.length
              ? t("{{count}} nodes", { count: nodes.length })
              : t("{{found}} of {{count}} nodes", { found: matching.length, count: nodes.length })}
          </Text>
        </Group>
      )}
      {nodes.length >= MAP_FROM && matching.length > 0 && (
        <NodeMap nodes={matching} onPick={(name) => set({ text: name })} />
      )}
      {matching.length === 0 ? (
        <EmptyState icon={Search} title={t("No matching nodes")}>
          {t("Try another search text, partition or state.")}
        </EmptyState>
      ) : (
        <NodeTable nodes={matching} actions={canDrain ? (node) => <NodeActions node={node} /> : undefined} />
      )}
    </>
  );
}

function Totals({ nodes }: { nodes: readonly ClusterNode[] }) {
  const { t } = useTranslation();
  const { cpu, memory, gpus } = capacityOf(nodes);
  const rows = [
    { title: t("CPUs"), ...cpu, free: t("{{free}} of {{total}} free", { free: cpu.total - cpu.used, total: cpu.total }) },
    { title: t("Memory"), ...memory, free: t("{{free}} of {{total}} free", { free: formatBytes(memory.total - memory.used), total: formatBytes(memory.total) }) },
    ...[...gpus].map(([type, amount]) => ({
      title: type === "GPU" ? t("GPUs") : t("{{type}} GPUs", { type }),
      ...amount,
      free: t("{{free}} of {{total}} free", { free: amount.total - amount.used, total: amount.total }),
    })),
  ];
  return (
    <div
      style={{ display: "grid", gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 240px), 1fr))", gap: 14, marginBottom: 20 }}
    >
      {rows.map((row) => (
        <div key={row.title} className="card" style={{ padding: "16px 20px" }}>
          <CapacityRow {...row} />
        </div>
      ))}
    </div>
  );
}
