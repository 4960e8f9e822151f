import { Button, Drawer, Group, Skeleton, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { History, Search } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { drainsQuery, type NodeEvent, nodeHistoryQuery } from "@/api/admin";
import { meQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { NodeActions } from "@/components/NodeActions";
import { NodeFilterFields, NodesFrame } from "@/components/NodesFrame";
import { NodeTable } from "@/components/NodeTable";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import { msg } from "@/i18n/msg";
import { CLOSED, filterNodes, NO_FILTER, NODE_LOOKS, type NodeFilter, type NodeState } from "@/lib/nodes";
import classes from "./Admin.module.css";

/** All nodes, with drain, resume and the history of each. */
export function AdminNodesPage() {
  const { t } = useTranslation();
  const [historyNode, setHistoryNode] = useState<string | null>(null);
  return (
    <>
      <NodesFrame title={t("Nodes")}>{(nodes) => <Nodes nodes={nodes} onHistory={setHistoryNode} />}</NodesFrame>
      <Drawer
        opened={historyNode !== null}
        onClose={() => setHistoryNode(null)}
        position="right"
        title={<strong>{t("History of {{node}}", { node: historyNode })}</strong>}
       
      >
        {historyNode !== null && <NodeHistory name={historyNode} />}
      </Drawer>
    </>
  );
}

/** Unavailable nodes first. */
function unavailableFirst(nodes: ClusterNode[]): ClusterNode[] {
  return [...nodes].sort((a, b) => Number(CLOSED.has(b.state)) - Number(CLOSED.has(a.state)));
}

function Nodes({ nodes, onHistory }: { nodes: readonly ClusterNode[]; onHistory: (name: string) => void }) {
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
          {t("Try another search text or state.")}
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
                <Button variant="subtle" size="compact-sm" leftSection={<History size={14} />} onClick={() => onHistory(node.name)} aria-label={t("History of {{node}}", { node: node.name })} data-testid="node-history">
                  {t("History")}
                </Button>
                {canDrain && <NodeActions node={node} />}
              </>
            );
          }}
        />
      )}
    </>
  );
}

const EVENT_LABELS: Partial<Record<string, string>> = {
  up: msg("Available"),
  drain: msg("Drained by {{name}}"),
  resume: msg("Resumed by {{name}}"),
  gone: msg("Removed from the scheduler"),
};

function NodeHistory({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(nodeHistoryQuery(name));
  if (query.isPending) return <Skeleton height={120} radius={8} />;
  if (query.isError && !query.data) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  const events = query.data.pages.flatMap((page) => page.items);
  if (events.length === 0) {
    return (
      <EmptyState icon={History} title={t("No events yet")}>
        {t("Failures, drain and resume actions of this node are listed here.")}
      </EmptyState>
    );
  }
  return (
    <>
      <ol className={classes.events}>
        {events.map((event) => (
          <NodeEventItem key={event.id} event={event} />
        ))}
      </ol>
      {query.hasNextPage && (
        <div className={classes.more}>
          <Button variant="default" size="compact-md" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {t("Show more")}
          </Button>
        </div>
      )}
    </>
  );
}

function NodeEventItem({ event }: { event: NodeEvent }) {
  const { t } = useTranslation();
  const label = EVENT_LABELS[event.event];
  const look = NODE_LOOKS[event.event as NodeState] as (typeof NODE_LOOKS)[NodeState] | undefined;
  return (
    <li>
      <strong>{label === undefined ? t(look?.label ?? event.event) : t(label, { name: event.actor })}</strong>{" "}
      <Text span size="xs" c="dimmed">
        <RelativeTime at={event.time} />
      </Text>
      {event.reason && <p>{event.reason}</p>}
    </li>
  );
}
