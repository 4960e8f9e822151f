import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ListOrdered } from "lucide-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import { queuesQuery } from "@/api/cluster";
import { partitionsQuery } from "@/api/queries";
import type { LoadPeriod, PartitionQueue } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import { formatDuration, HOUR, MINUTE } from "@/lib/time";
import { formatNumber, withUnit } from "@/lib/units";
import { waitShares } from "./queues";
import table from "@/components/table.module.css";
import panel from "./LoadPanel.module.css";
import classes from "./QueuePanel.module.css";

interface Props {
  period: LoadPeriod;
  partition: string | undefined;
}

/** Pending and running jobs by partition, and how long jobs waited for their start. */
export function QueuePanel({ period, partition }: Props) {
  const { t } = useTranslation();
  const query = useQuery(queuesQuery(period));
  const items = query.data?.items.filter((queue) => partition === undefined || queue.partition === partition);
  return (
    <section className={`card ${panel.panel ?? ""}`} aria-labelledby="queues-title" data-testid="queues">
      <div className={panel.head}>
        <h2 id="queues-title">{t("Queue and wait time")}</h2>
      </div>
      {query.isPending ? (
        <TableSkeleton rows={3} />
      ) : items === undefined ? (
        <PageError compact error={query.error} onRetry={() => query.refetch()} />
      ) : items.length === 0 ? (
        <EmptyState icon={ListOrdered} title={t("No jobs in this period")}>
          {t("No job is pending or running, and none started in this period.")}
        </EmptyState>
      ) : (
        <Queues items={items} />
      )}
    </section>
  );
}

function Queues({ items }: { items: readonly PartitionQueue[] }) {
  const { t } = useTranslation();
  const bounds = items[0]?.waits.map((wait) => wait.below_s) ?? [];
  return (
    <>
      <div className={`${table.wrap ?? ""} ${classes.wide ?? ""}`}>
        <table className={`${table.table ?? ""} tabular`}>
          <thead>
            <tr>
              <th scope="col">{t("Partition")}</th>
              <th scope="col" className={table.num}>{t("Pending")}</th>
              <th scope="col" className={table.num}>{t("Longest pending")}</th>
              <th scope="col" className={table.num}>{t("Running")}</th>
              <th scope="col" className={table.num}>{t("Started")}</th>
              <th scope="col">{t("Wait time of started jobs")}</th>
            </tr>
          </thead>
          <tbody>
            {items.map((queue) => (
              <QueueRow key={queue.partition ?? ""} queue={queue} />
            ))}
          </tbody>
        </table>
      </div>
      <div className={classes.legend} aria-hidden>
        {bounds.map((bound, index) => (
          <span key={bound ?? "longer"}>
            <i className={classes.swatch} style={shade(index)} /> {bound === null ? t("longer") : t("below {{time}}", { time: short(bound) })}
          </span>
        ))}
      </div>
    </>
  );
}

function QueueRow({ queue }: { queue: PartitionQueue }) {
  const { t } = useTranslation();
  const hasPartitions = (useQuery(partitionsQuery).data?.items.length ?? 0) > 0;
  const jobs = { all: true, ...(queue.partition === null ? {} : { partition: queue.partition }) };
  const shares = waitShares(queue);
  return (
    <tr data-testid="queue-row">
      <td>{queue.partition ?? <span className={table.dim}>{hasPartitions ? t("not assigned") : t("All jobs")}</span>}</td>
      <td className={table.num} data-label={t("Pending")}>
        <Link to="/admin/jobs" search={{ ...jobs, state: "waiting" }} className={table.plainLink}>
          {formatNumber(queue.waiting_jobs)}
        </Link>
      </td>
      <td className={table.num} data-label={t("Longest pending")}>
        {queue.oldest_wait_s === null ? "–" : formatDuration(queue.oldest_wait_s)}
      </td>
      <td className={table.num} data-label={t("Running")}>
        <Link to="/admin/jobs" search={{ ...jobs, state: "running" }} className={table.plainLink}>
          {formatNumber(queue.running_jobs)}
        </Link>
      </td>
      <td className={table.num} data-label={t("Started")}>
        {formatNumber(queue.started_jobs)}
      </td>
      <td className={classes.waits}>
        {queue.mean_wait_s === null ? (
          <span className={table.dim}>{t("No job started in this period.")}</span>
        ) : (
          <>
            <span className={classes.bar} aria-hidden>
              {shares.map((share, index) => (
                <span key={index} style={{ ...shade(index), width: `${100 * share}%` }} />
              ))}
            </span>
            <span className={classes.words}>
              {t("avg {{mean}}", { mean: formatDuration(queue.mean_wait_s) })} · {t("at most {{time}}", { time: formatDuration(queue.longest_wait_s ?? 0) })}
            </span>
            <span className="visually-hidden">
              {queue.waits.map((wait) => `${wait.below_s === null ? t("longer") : t("below {{time}}", { time: short(wait.below_s) })}: ${wait.jobs}`).join(", ")}
            </span>
          </>
        )}
      </td>
    </tr>
  );
}

/** 600 -> "10 min": bounds are whole minutes or hours. */
function short(seconds: number): string {
  return seconds < HOUR ? withUnit(seconds / MINUTE, "min") : withUnit(seconds / HOUR, "h");
}

function shade(index: number): CSSProperties {
  return { background: `var(--wait-${index})` };
}
