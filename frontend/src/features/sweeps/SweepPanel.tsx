import { ActionIcon, Anchor, Button, Checkbox, Group, Text, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Download, GitCompareArrows, OctagonX, Trophy } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { runKeys, type Sweep, type SweepTask, stopSweep, sweepQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { DataTable } from "@/components/DataTable";
import { notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import type { Column } from "@/components/table";
import { TabSkeleton } from "@/components/TabSkeleton";
import { msg } from "@/i18n/msg";
import { isTerminal, lookOf } from "@/lib/states";
import { comparePath, MOST_RUNS } from "@/lib/compared-runs";
import { type Column as SweepColumn, csvOf, firstOrder, formatCell, MAX_METRICS, metricsOf, type Order, sorted, valuesOf } from "@/lib/sweep";
import { useCacheUpdater } from "@/live/LiveProvider";
import classes from "./SweepPanel.module.css";
import { SweepCurves } from "./SweepCurves";
import { SweepPlot } from "./SweepPlot";

/** The tasks of a sweep with their parameters and metrics. */
export function SweepPanel({ job }: { job: Job }) {
  const query = useQuery(sweepQuery(job.id));
  if (query.isPending) return <TabSkeleton h={320} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  return <SweepTasks job={job} sweep={query.data} />;
}

function SweepTasks({ job, sweep }: { job: Job; sweep: Sweep }) {
  const [order, setOrder] = useState<Order | null>(null);
  const [highlighted, setHighlighted] = useState<number | null>(null);
  const [compared, setCompared] = useState<string[]>([]);
  const metrics = metricsOf(sweep).slice(0, MAX_METRICS);
  const currentOrder = order ?? firstOrder(sweep);
  const rows = useMemo(() => sorted(sweep.tasks, currentOrder), [sweep.tasks, currentOrder]);
  const metric = sweep.metric ?? metrics[0];
  const scored = sweep.tasks.filter((task) => metric !== undefined && metric in task.values).length;
  return (
    <div className={classes.panel} data-testid="sweep">
      <Head job={job} sweep={sweep} compared={compared} />
      {metric !== undefined && scored > 1 && <SweepPlot sweep={sweep} metric={metric} highlighted={highlighted} onHighlight={setHighlighted} />}
      <SweepCurves sweep={sweep} />
      <Table sweep={sweep} rows={rows} metrics={metrics} order={currentOrder} highlighted={highlighted} compared={compared} onOrder={setOrder} onHighlight={setHighlighted} onCompare={setCompared} />
    </div>
  );
}

function Head({ job, sweep, compared }: { job: Job; sweep: Sweep; compared: string[] }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const updater = useCacheUpdater();
  const [confirming, setConfirming] = useState(false);
  const stop = useMutation({
    mutationFn: () => stopSweep(job.id),
    onSuccess: async (answer) => {
      updater.put(answer);
      await cache.invalidateQueries({ queryKey: runKeys.sweep(job.id) });
    },
    onError: (error) => notifyProblem(t("The sweep was not stopped"), error),
    onSettled: () => setConfirming(false),
  });
  const ended = sweep.tasks.filter((task) => isTerminal(task.state)).length;
  const best = sweep.tasks.find((task) => task.task === sweep.best);
  const finished = ended === sweep.tasks.length;
  return (
    <div className={classes.head}>
      <div className={classes.verdict}>
        {best !== undefined && sweep.metric !== null ? (
          <Text fw={600} data-testid="sweep-best">
            <Trophy size={16} style={{ verticalAlign: "-2px", marginRight: 6 }} color="var(--good)" aria-hidden />
            {t(titleOfBest(job, finished), {
              task: best.task,
              metric: sweep.metric,
              value: formatCell(best.values[sweep.metric] ?? null),
            })}
          </Text>
        ) : (
          <Text fw={600}>{sweep.metric === null ? t("Settings") : t("No {{metric}} yet", { metric: sweep.metric })}</Text>
        )}
        <Text size="sm" c="dimmed" className="tabular">
          {t("{{ended}} of {{count}} tasks have ended", { ended, count: sweep.tasks.length })}
          {sweep.stop_when !== null &&
            ` · ${t(sweep.stop_when.goal === "max" ? "stops when {{metric}} reaches {{value}}" : "stops when {{metric}} falls to {{value}}", {
              metric: sweep.stop_when.metric,
              value: formatCell(sweep.stop_when.value),
            })}`}
        </Text>
        {metricsOf(sweep).length === 0 && (
          <Text size="sm" c="dimmed" mt={6} maw={560}>
            {t("Metrics appear here when tasks write metrics.json, metrics.jsonl or TensorBoard event files to $AITNE_METRICS.")}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {compared.length >= 2 && (
          <Button
            renderRoot={(props) => <Link {...props} to={comparePath(compared) as "/"} />}
            size="xs"
            leftSection={<GitCompareArrows size={15} />}
            data-testid="sweep-compare-selected"
          >
            {t("Compare")}
          </Button>
        )}
        <Button variant="default" size="xs" leftSection={<Download size={15} />} onClick={() => save(job.name, csvOf(sweep))}>
          {t("CSV")}
        </Button>
        {!finished && job.actions.includes("cancel") && (
          <Button variant="outline" color="red" size="xs" leftSection={<OctagonX size={15} />} onClick={() => setConfirming(true)} data-testid="sweep-stop">
            {t("Stop sweep")}
          </Button>
        )}
      </Group>
      <Confirm
        opened={confirming}
        title={t("Stop this sweep?")}
        action={t("Stop sweep")}
        keep={t("Keep running")}
        busy={stop.isPending}
        onClose={() => setConfirming(false)}
        onConfirm={() => stop.mutate()}
      >
        {best === undefined
          ? t("All unfinished tasks are cancelled.")
          : t("All unfinished tasks except task {{task}} (best so far) are cancelled.", { task: best.task })}
      </Confirm>
    </div>
  );
}

function titleOfBest(job: Job, finished: boolean): string {
  if (job.reason === "goal_reached") return msg("Goal reached: task {{task}}, {{metric}} {{value}}");
  return finished ? msg("Best: task {{task}}, {{metric}} {{value}}") : msg("Best so far: task {{task}}, {{metric}} {{value}}");
}

interface TableProps {
  sweep: Sweep;
  rows: Sweep["tasks"];
  metrics: string[];
  order: Order;
  highlighted: number | null;
  /** IDs of the jobs to compare, `MOST_RUNS` at most; another one replaces the first. */
  compared: string[];
  onOrder: (order: Order) => void;
  onHighlight: (task: number | null) => void;
  onCompare: (compared: string[]) => void;
}

function Table({ sweep, rows, metrics, order, highlighted, compared, onOrder, onHighlight, onCompare }: TableProps) {
  const { t } = useTranslation();
  const toggle = (id: string) => onCompare(compared.includes(id) ? compared.filter((each) => each !== id) : [...compared.slice(1 - MOST_RUNS), id]);
  const best = sweep.tasks.find((task) => task.task === sweep.best);
  const sortable = (of: SweepColumn, column: Column<SweepTask>): OrderedColumn => ({
    ...column,
    of,
    key: keyOf(of),
    sort: keyOf(of),
    descendingFirst: of.kind === "metric" && sweep.goal === "max",
  });
  const columns: OrderedColumn[] = [
    sortable({ kind: "task", name: "" }, {
      header: t("Task"),
      label: t("Task"),
      cell: ({ task, job_id }) => (
        <Group gap={8} wrap="nowrap" display="inline-flex" lh={1} style={{ verticalAlign: "middle" }}>
          <Checkbox size="xs" checked={compared.includes(job_id)} onChange={() => toggle(job_id)} aria-label={t("Compare task {{task}}", { task })} data-testid="sweep-tick" />
          <Anchor component={Link} to={`/jobs/${job_id}`} size="sm">
            {task}
            {task === sweep.best && <span className="visually-hidden">{t("best")}</span>}
          </Anchor>
        </Group>
      ),
    }),
    sortable({ kind: "state", name: "" }, { header: t("State"), cell: ({ state }) => lookOf(state).label }),
    ...sweep.parameters.map((name) => sortable({ kind: "parameter", name }, { header: name, align: "right", cell: ({ parameters }) => formatCell(parameters[name] ?? null) })),
    ...metrics.map((name) => sortable({ kind: "metric", name }, { header: name, align: "right", cell: (task) => valuesOf(task)[name] ?? formatCell(null) })),
  ];
  if (best) columns.push({ header: t("Compare"), headerHidden: true, align: "right", cell: (task) => task.task !== best.task && <CompareLink task={task} best={best} /> });
  return (
    <DataTable
      caption={t("Sweep tasks")}
      columns={columns}
      rows={rows}
      rowKey={({ task }) => task}
      sorting={{
        by: keyOf(order.column),
        descending: order.descending,
        onSort: (key, descending) => {
          const column = columns.find(({ sort }) => sort === key)?.of;
          if (column) onOrder({ column, descending });
        },
      }}
      rowProps={({ task }) => ({
        className: task === sweep.best ? classes.bestRow : task === highlighted ? classes.chosenRow : undefined,
        onMouseEnter: () => onHighlight(task),
        onMouseLeave: () => onHighlight(null),
      })}
      testId="sweep-table"
    />
  );
}

/** A column of the table, and what of the sweep it shows where it sorts by that. */
interface OrderedColumn extends Column<SweepTask> {
  of?: SweepColumn;
}

const keyOf = ({ kind, name }: SweepColumn) => `${kind} ${name}`;

function CompareLink({ task, best }: { task: Sweep["tasks"][number]; best: Sweep["tasks"][number] }) {
  const { t } = useTranslation();
  const label = t("Compare task {{task}} with the best task", { task: task.task });
  return (
    <Tooltip label={label}>
      <ActionIcon
        renderRoot={(props) => <Link {...props} to={comparePath([best.job_id, task.job_id]) as "/"} />}
        variant="subtle"
        color="gray"
        size={26}
        aria-label={label}
        data-testid="sweep-compare"
      >
        <GitCompareArrows size={15} />
      </ActionIcon>
    </Tooltip>
  );
}

function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "sweep"}.csv`;
  link.click();
  URL.revokeObjectURL(url);
}
