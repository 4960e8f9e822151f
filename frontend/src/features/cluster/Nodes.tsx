import { Group, Text } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { drainsQuery } from "@/api/admin";
import { meQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { RelativeTime } from "@/components/Time";
import { NodeActions } from "./NodeActions";
import { CLOSED, filterNodes, NO_FILTER, type NodeFilter } from "./nodes";
import { NodeFilterFields, NodesFrame, NodesTitle } from "./NodesFrame";
import { NodeTable } from "./NodeTable";

/** All nodes, with drain and resume; the page of each has its history. */
export function AdminNodesPage() {
  const { t } = useTranslation();
  return (
    <>
      <NodesTitle title={t("Nodes")} />
      <NodesFrame>{(nodes) => <Nodes nodes={nodes} />}</NodesFrame>
    </>
  );
}

/** Unavailable nodes first. */
function unavailableFirst(nodes: ClusterNode[]): ClusterNode[] {
  return [...nodes].sort((a, b) => Number(CLOSED.has(b.state)) - Number(CLOSED.has(a.state)));
}

function Nodes({ nodes }: { nodes: readonly ClusterNode[] }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const { data: drains } = useQuery(drainsQuery);
  const [filter, setFilter] = useState<NodeFilter>(NO_FILTER);
  const matching = useMemo(() => unavailableFirst(filterNodes(nodes, filter)), [nodes, filter]);
  const set = (change: Partial<NodeFilter>) => setFilter((old) => ({ ...old, ...change }));
  const canDrain = me.platform.can_drain;
  return (
    <>
      <Group p="md" gap="sm" wrap="wrap" role="search">
        <NodeFilterFields nodes={nodes} filter={filter} onChange={set} />
      </Group>
      {matching.length === 0 ? (
        <EmptyState icon={Search} title={t("No matching nodes")}>
          {t("Try a different search or state.")}
        </EmptyState>
      ) : (
        <NodeTable
          nodes={matching}
          actions={(node) => {
            const drain = CLOSED.has(node.state) ? drains?.get(node.name) : undefined;
            return (
              <>
                {drain && (
                  <Text size="xs" c="dimmed">
                    {t("drained by {{name}}", { name: drain.actor })} <RelativeTime at={drain.time} />
                  </Text>
                )}
                {canDrain && <NodeActions node={node} />}
              </>
            );
          }}
        />
      )}
    </>
  );
}
