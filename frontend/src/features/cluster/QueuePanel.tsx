import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ListOrdered } from "lucide-react";
import type { CSSProperties } from "react";
import { useTranslation } from "react-i18next";
import { queuesQuery } from "@/api/cluster";
import { partitionsQuery } from "@/api/queries";
import type { LoadPeriod, PartitionQueue } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { QueryContent } from "@/components/QueryContent";
import type { Column } from "@/components/table";
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
      <QueryContent
        query={query}
        items={items}
        rows={3}
        compact
        empty={
          <EmptyState icon={ListOrdered} title={t("No jobs in this period")}>
            {t("No job is pending or running, and none started in this period.")}
          </EmptyState>
        }
      >
        {(queues) => <Queues items={queues} />}
      </QueryContent>
    </section>
  );
}

function Queues({ items }: { items: readonly PartitionQueue[] }) {
  const { t } = useTranslation();
  const hasPartitions = (useQuery(partitionsQuery).data?.items.length ?? 0) > 0;
  const bounds = items[0]?.waits.map((wait) => wait.below_s) ?? [];
  const jobsOf = ({ partition }: PartitionQueue, state: "waiting" | "running", count: number) => (
    <Link to="/admin/jobs" search={{ all: true, ...(partition === null ? {} : { partition }), state }} className={table.plainLink}>
      {formatNumber(count)}
    </Link>
  );
  const columns: Column<PartitionQueue>[] = [
    { header: t("Partition"), cell: ({ partition }) => partition ?? <span className={table.dim}>{hasPartitions ? t("not assigned") : t("All jobs")}</span> },
    { header: t("Pending"), align: "right", cell: (queue) => jobsOf(queue, "waiting", queue.waiting_jobs) },
    { header: t("Longest pending"), align: "right", cell: ({ oldest_wait_s }) => (oldest_wait_s === null ? "–" : formatDuration(oldest_wait_s)) },
    { header: t("Running"), align: "right", cell: (queue) => jobsOf(queue, "running", queue.running_jobs) },
    { header: t("Started"), align: "right", cell: ({ started_jobs }) => formatNumber(started_jobs) },
    { header: t("Wait time of started jobs"), label: null, className: classes.waits, cell: (queue) => <Waits queue={queue} /> },
  ];
  return (
    <>
      <DataTable columns={columns} rows={items} rowKey={({ partition }) => partition ?? ""} rowTestId="queue-row" className={classes.wide} />
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

/** How long the jobs of a queue waited, as a bar and in words. */
function Waits({ queue }: { queue: PartitionQueue }) {
  const { t } = useTranslation();
  if (queue.mean_wait_s === null) return <span className={table.dim}>{t("No job started in this period.")}</span>;
  return (
    <>
      <span className={classes.bar} aria-hidden>
        {waitShares(queue).map((share, index) => (
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
  );
}

/** 600 -> "10 min": bounds are whole minutes or hours. */
function short(seconds: number): string {
  return seconds < HOUR ? withUnit(seconds / MINUTE, "min") : withUnit(seconds / HOUR, "h");
}

function shade(index: number): CSSProperties {
  return { background: `var(--wait-${index})` };
}
