import { SegmentedControl, Switch, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Network } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { isStatus } from "@/api/client";
import { messageOf } from "@/api/problem";
import { type JobPlacement, type PlacementCosts, placementQuery } from "@/api/topology";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { TableSkeleton } from "@/components/TableSkeleton";
import { BindingTable, OrderTable } from "./PlacementTables";
import { isNetworkKnown, jobTree, linesOf, MOST_NODES, orderOf, ORDERS, type OrderName, ranksPerNode } from "./placement";
import { PlacementPicture } from "./PlacementPicture";
import classes from "./Placement.module.css";

/** The order of a job's ranks on the network, and what they are bound to. */
export default function PlacementTab({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(placementQuery(job.id));
  if (query.isPending) return <TableSkeleton rows={8} />;
  if (query.data !== undefined) return <LoadedPlacement job={job} placement={query.data} />;
  if (isStatus(query.error, 409)) {
    return (
      <EmptyState icon={Network} title={job.ended_at === null ? t("No placement yet") : t("No placement recorded")}>
        <ServerText>{messageOf(query.error)}</ServerText>
      </EmptyState>
    );
  }
  return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
}

function LoadedPlacement({ job, placement }: { job: Job; placement: JobPlacement }) {
  const { t } = useTranslation();
  const [name, setName] = useState<OrderName>("chosen");
  const [folds, setFolds] = useState<boolean>();
  const folded = folds ?? placement.order.length > MOST_NODES;
  const tree = useMemo(() => jobTree(placement), [placement]);
  const lines = useMemo(() => linesOf(tree, folded), [tree, folded]);
  const order = useMemo(() => orderOf(placement, name), [placement, name]);
  const known = isNetworkKnown(placement);
  const each = ranksPerNode(placement, job.distributed);
  const labels = useOrderLabels();
  return (
    <div className={classes.panel} data-testid="placement">
      {placement.reason !== "" && (
        <Text size="sm">
          <ServerText>{placement.reason}</ServerText>
        </Text>
      )}
      {known ? (
        <div className={classes.head}>
          <SegmentedControl size="xs" aria-label={t("Order of the ranks")} value={name} onChange={setName} data={ORDERS.map((value) => ({ value, label: labels[value] }))} />
          <Switch size="xs" label={t("Fold the nodes")} checked={folded} onChange={(event) => setFolds(event.currentTarget.checked)} data-testid="placement-fold" />
        </div>
      ) : (
        <Text size="sm" c="dimmed">
          {t("The platform does not know the topology of the network, so the ring is not drawn. An administrator can import it.")}
        </Text>
      )}
      {placement.crossings !== null && <Figures placement={placement} />}
      <PlacementPicture lines={lines} folded={folded} tree={tree} order={order} each={each} ring={known} busiest={placement.busiest_uplink?.[name] ?? null} />
      <OrderTable placement={placement} tree={tree} each={each} />
      {placement.bindings.length > 0 && <BindingTable bindings={placement.bindings} />}
    </div>
  );
}

function useOrderLabels(): Record<OrderName, string> {
  const { t } = useTranslation();
  return { given: t("Given"), chosen: t("Chosen"), best: t("Best known") };
}

/** The costs of the three orders side by side. */
function Figures({ placement }: { placement: JobPlacement }) {
  const { t } = useTranslation();
  const labels = useOrderLabels();
  const rows: [string, PlacementCosts | null][] = [
    [t("Crossings between leaves"), placement.crossings],
    [t("Busiest uplink"), placement.busiest_uplink],
  ];
  return (
    <table className={`${classes.figures ?? ""} tabular`} data-testid="placement-figures">
      <caption className="visually-hidden">{t("Costs of the orders")}</caption>
      <thead>
        <tr>
          <td />
          {ORDERS.map((name) => (
            <th key={name} scope="col">
              {labels[name]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([title, costs]) => (
          <tr key={title}>
            <th scope="row">{title}</th>
            {ORDERS.map((name) => (
              <td key={name}>{costs?.[name] ?? "–"}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
