import { Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nodesQuery } from "@/api/queries";
import type { ClusterNodes } from "@/api/types";
import { CapacityRow } from "@/components/Capacity";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import { capacityOf } from "@/lib/capacity";
import { formatBytes, plural } from "@/lib/units";
import classes from "@/pages/Dashboard.module.css";

/** What is free right now. */
export function ClusterPanel() {
  const nodes = useQuery(nodesQuery);
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="cluster-title">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h5" id="cluster-title">
          Cluster
        </Title>
        <Anchor component={Link} to="/cluster" size="sm">
          Nodes
        </Anchor>
      </Group>
      {nodes.isPending && <PanelSkeleton rows={3} />}
      {nodes.isError && !nodes.data && <PageError compact error={nodes.error} onRetry={() => void nodes.refetch()} />}
      {nodes.data && <Bars nodes={nodes.data} />}
    </section>
  );
}

function Bars({ nodes }: { nodes: ClusterNodes }) {
  const { cpu, memory, gpus, nodes: count } = capacityOf(nodes.items);
  if (count.total === 0) {
    return (
      <Text size="sm" c="dimmed">
        No node has reported yet. Jobs can be submitted; they wait.
      </Text>
    );
  }
  return (
    <Stack gap="md">
      <CapacityRow title="CPUs" {...cpu} free={`${cpu.total - cpu.used} of ${cpu.total} free`} />
      <CapacityRow
        title="Memory"
        {...memory}
        free={`${formatBytes(memory.total - memory.used)} of ${formatBytes(memory.total)} free`}
      />
      {[...gpus].map(([type, amount]) => (
        <CapacityRow
          key={type}
          title={type === "GPU" ? "GPUs" : `GPUs ${type}`}
          {...amount}
          free={`${amount.total - amount.used} of ${amount.total} free`}
        />
      ))}
      <Text size="xs" c="dimmed">
        {count.up === count.total ? plural(count.total, "node") : `${count.up} of ${plural(count.total, "node")} take work`}
        {gpus.size === 0 && " · no GPUs"}
        {nodes.stale && nodes.as_of && (
          <>
            {" · "}
            as of <RelativeTime at={nodes.as_of} />
          </>
        )}
      </Text>
    </Stack>
  );
}
