import { SegmentedControl, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Server } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { nodesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { NodeMap } from "./NodeMap";
import { allocatedShare, filterNodes, NO_FILTER, type Resource } from "./nodes";
import { StaleNodes } from "./NodesFrame";
import { NodeTable } from "./NodeTable";
import classes from "./LoadPanel.module.css";

/** A square for each node: its state, and how much of a resource is allocated; each opens the page of its node. */
export function HeatMap({ partition }: { partition: string | undefined }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const query = useQuery(nodesQuery);
  const [chosen, setChosen] = useState<Resource>();
  const [unfolded, setUnfolded] = useState(false);
  const nodes = query.data && filterNodes(query.data.items, { ...NO_FILTER, partition: partition ?? null });
  const hasGpus = nodes?.some((node) => node.gpus.length > 0) ?? false;
  const resource = chosen ?? (hasGpus ? "gpu" : "cpu");
  // A node without GPUs would look like one whose GPUs are free.
  const shown = resource === "gpu" ? nodes?.filter((node) => node.gpus.length > 0) : nodes;
  const labels: Record<Resource, string> = { gpu: t("GPUs"), cpu: t("CPUs"), memory: t("Memory") };
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="map-title" data-testid="heat-map">
      <div className={classes.head}>
        <h2 id="map-title">{t("Nodes by allocated share")}</h2>
        <SegmentedControl
          size="xs"
          aria-label={t("Resource")}
          value={resource}
          onChange={setChosen}
          data={(["gpu", "cpu", "memory"] as const).filter((name) => name !== "gpu" || hasGpus).map((value) => ({ value, label: labels[value] }))}
        />
      </div>
      {query.isPending ? (
        <Skeleton h={120} />
      ) : shown === undefined ? (
        <PageError compact error={query.error} onRetry={() => query.refetch()} />
      ) : shown.length === 0 ? (
        <EmptyState icon={Server} title={t("No node data yet")}>
          {t("The controller polls the scheduler every few seconds. If no nodes appear, check the controller's log.")}
        </EmptyState>
      ) : (
        <>
          {query.data?.stale && <StaleNodes />}
          <div className={classes.map}>
            <NodeMap nodes={shown} share={(node) => allocatedShare(node, resource)} onPick={(name) => void navigate({ to: "/cluster/nodes/$name", params: { name } })} />
          </div>
          <details className={classes.values} onToggle={(event) => setUnfolded(event.currentTarget.open)}>
            <summary>{t("Values as a table")}</summary>
            {unfolded && <NodeTable nodes={shown} />}
          </details>
        </>
      )}
    </section>
  );
}
