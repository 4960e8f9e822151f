import { Alert, Select, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Clock, Search, Server } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { nodesQuery } from "@/api/queries";
import type { ClusterNode } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { RelativeTime } from "@/components/Time";
import { nodeLook, type NodeFilter, statesOf } from "./nodes";

interface Props {
  /** Content above the card. */
  above?: (nodes: readonly ClusterNode[]) => ReactNode;
  children: (nodes: readonly ClusterNode[]) => ReactNode;
}

/** The title of a page of the cluster with the time of the data. */
export function NodesTitle({ title }: { title: string }) {
  const { t } = useTranslation();
  const nodes = useQuery(nodesQuery).data;
  return (
    <>
      <PageTitle title={title}>
        {nodes?.as_of && (
          <Text size="sm" c="dimmed">
            {t("Updated")} <RelativeTime at={nodes.as_of} />
          </Text>
        )}
      </PageTitle>
      {nodes?.stale && <StaleNodes />}
    </>
  );
}

/** The cluster's nodes in all states of the query. */
export function NodesFrame({ above, children }: Props) {
  const { t } = useTranslation();
  const query = useQuery(nodesQuery);
  const nodes = query.data;
  return (
    <>
      {nodes && nodes.items.length > 0 && above?.(nodes.items)}
      <QueryCard
        query={query}
        items={nodes?.items}
        rows={4}
        empty={
          <EmptyState icon={Server} title={t("No node data yet")}>
            {t("The controller polls the scheduler every few seconds. If no nodes appear, check the controller's log.")}
          </EmptyState>
        }
      >
        {children}
      </QueryCard>
    </>
  );
}

/** Tells that the scheduler's data are older than they should be. */
export function StaleNodes() {
  const { t } = useTranslation();
  return (
    <Alert color="orange" icon={<Clock size={18} />} mb="md" title={t("Data may be outdated")}>
      {t("The scheduler is not responding. Running jobs continue; the values below are the last known ones.")}
    </Alert>
  );
}

interface FieldProps {
  nodes: readonly ClusterNode[];
  filter: NodeFilter;
  onChange: (change: Partial<NodeFilter>) => void;
}

/** Filter by text and by state. */
export function NodeFilterFields({ nodes, filter, onChange }: FieldProps) {
  const { t } = useTranslation();
  return (
    <>
      <TextInput
        placeholder={t("Name, feature, GPU type or reason")}
        aria-label={t("Search nodes")}
        leftSection={<Search size={16} />}
        value={filter.text}
        onChange={(event) => onChange({ text: event.currentTarget.value })}
        style={{ flex: "1 1 220px" }}
        data-testid="node-search"
      />
      <Select
        aria-label={t("State")}
        placeholder={t("Any state")}
        data={statesOf(nodes).map((state) => ({ value: state, label: t(nodeLook(state).label) }))}
        value={filter.state}
        onChange={(state) => onChange({ state })}
        clearable
        style={{ flex: "0 1 200px" }}
      />
    </>
  );
}
