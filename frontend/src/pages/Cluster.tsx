import { Alert, Group, Select, Text, TextInput } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Clock, Search, Server } from "lucide-react";
import { useMemo, useState } from "react";
import { meQuery, nodesQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { CapacityRow } from "@/components/Capacity";
import { EmptyState } from "@/components/EmptyState";
import { NodeActions } from "@/components/NodeActions";
import { NodeMap } from "@/components/NodeMap";
import { NodeTable } from "@/components/NodeTable";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import { capacityOf } from "@/lib/capacity";
import { filterNodes, NO_FILTER, NODE_LOOKS, type NodeFilter, partitionsOf, statesOf } from "@/lib/nodes";
import { formatBytes } from "@/lib/units";

export function ClusterPage() {
  const query = useQuery(nodesQuery);
  const nodes = query.data;
  return (
    <>
      <PageTitle title="Cluster">
        {nodes?.as_of && (
          <Text size="sm" c="dimmed">
            Seen <RelativeTime at={nodes.as_of} />
          </Text>
        )}
      </PageTitle>
      {nodes?.stale && (
        <Alert color="orange" icon={<Clock size={18} />} mb="md" title="This may be out of date">
          The scheduler has not answered for a while. What runs goes on; the figures below are the last known ones.
        </Alert>
      )}
      {nodes && nodes.items.length > 0 && <Totals nodes={nodes.items} />}
      <div className="card" style={{ overflow: "hidden" }}>
        {query.isPending && <TableSkeleton rows={4} />}
        {query.isError && !nodes && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {nodes?.items.length === 0 && (
          <EmptyState icon={Server} title="No node has reported yet">
            The controller asks the scheduler for its nodes every few seconds. If this stays empty, an administrator
            should look at the controller&apos;s log.
          </EmptyState>
        )}
        {nodes && nodes.items.length > 0 && <Nodes nodes={nodes.items} />}
      </div>
    </>
  );
}

/** From so many nodes on a picture tells more than the first rows of a table. */
const MAP_FROM = 9;

function Nodes({ nodes }: { nodes: readonly ClusterNode[] }) {
  const { data: me } = useSuspenseQuery(meQuery);
  // The embedded scheduler runs on the portal's machine and has no node to close.
  const closes = me.user.role === "admin" && me.platform.scheduler !== "local";
  const [filter, setFilter] = useState<NodeFilter>(NO_FILTER);
  const found = useMemo(() => filterNodes(nodes, filter), [nodes, filter]);
  const set = (change: Partial<NodeFilter>) => setFilter((old) => ({ ...old, ...change }));
  const partitions = partitionsOf(nodes);
  const few = nodes.length < MAP_FROM && partitions.length < 2;
  return (
    <>
      {!few && (
        <Group p="md" gap="sm" wrap="wrap" role="search">
          <TextInput
            placeholder="Name, feature, GPU type or reason"
            aria-label="Search nodes"
            leftSection={<Search size={16} />}
            value={filter.text}
            onChange={(event) => set({ text: event.currentTarget.value })}
            style={{ flex: "1 1 220px" }}
            data-testid="node-search"
          />
          <Select
            aria-label="Partition"
            placeholder="Any partition"
            data={partitions}
            value={filter.partition}
            onChange={(partition) => set({ partition })}
            clearable
            w={170}
          />
          <Select
            aria-label="State"
            placeholder="Any state"
            data={statesOf(nodes).map((state) => ({ value: state, label: NODE_LOOKS[state].label }))}
            value={filter.state}
            onChange={(state) => set({ state: state })}
            clearable
            w={160}
          />
          <Text size="sm" c="dimmed" role="status">
            {found.length === nodes.length ? `${nodes.length} nodes` : `${found.length} of ${nodes.length} nodes`}
          </Text>
        </Group>
      )}
      {nodes.length >= MAP_FROM && found.length > 0 && (
        <NodeMap nodes={found} onPick={(name) => set({ text: name })} />
      )}
      {found.length === 0 ? (
        <EmptyState icon={Search} title="No node matches">
          Other words, another partition or state may find some.
        </EmptyState>
      ) : (
        <NodeTable nodes={found} actions={closes ? (node) => <NodeActions node={node} /> : undefined} />
      )}
    </>
  );
}

function Totals({ nodes }: { nodes: ClusterNode[] }) {
  const { cpu, memory, gpus } = capacityOf(nodes);
  const rows = [
    { title: "CPUs", ...cpu, free: `${cpu.total - cpu.used} of ${cpu.total} free` },
    {
      title: "Memory",
      ...memory,
      free: `${formatBytes(memory.total - memory.used)} of ${formatBytes(memory.total)} free`,
    },
    ...[...gpus].map(([type, amount]) => ({
      title: type === "GPU" ? "GPUs" : `GPUs ${type}`,
      ...amount,
      free: `${amount.total - amount.used} of ${amount.total} free`,
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
