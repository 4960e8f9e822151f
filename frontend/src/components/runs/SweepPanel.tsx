import { ActionIcon, Anchor, Button, Checkbox, Group, Skeleton, Text, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowDown, ArrowUp, Download, GitCompareArrows, OctagonX, Trophy } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { runKeys, type Sweep, stopSweep, sweepQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import tableClasses from "@/components/table.module.css";
import { msg } from "@/i18n/msg";
import { isTerminal, lookOf } from "@/lib/states";
import { type Column, csvOf, firstOrder, formatCell, MOST_METRICS, metricsOf, type Order, sorted } from "@/lib/sweep";
import { useCacheUpdater } from "@/live/LiveProvider";
import classes from "./SweepPanel.module.css";
import { SweepPlot } from "./SweepPlot";

/** The settings of a sweep, and what came of each. */
export function SweepPanel({ job }: { job: Job }) {
  const query = useQuery(sweepQuery(job.id));
  if (query.isPending) return <Skeleton h={320} m={20} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  return <Settings job={job} sweep={query.data} />;
}

function Settings({ job, sweep }: { job: Job; sweep: Sweep }) {
  const [order, setOrder] = useState<Order | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const [ticked, setTicked] = useState<string[]>([]);
  const metrics = metricsOf(sweep).slice(0, MOST_METRICS);
  const shown = order ?? firstOrder(sweep);
  const rows = useMemo(() => sorted(sweep.tasks, shown), [sweep.tasks, shown]);
  const metric = sweep.metric ?? metrics[0];
  const judged = sweep.tasks.filter((task) => metric !== undefined && metric in task.values).length;
  return (
    <div className={classes.panel} data-testid="sweep">
      <Head job={job} sweep={sweep} ticked={ticked} />
      {metric !== undefined && judged > 1 && <SweepPlot sweep={sweep} metric={metric} chosen={chosen} onChoose={setChosen} />}
      <Table sweep={sweep} rows={rows} metrics={metrics} order={shown} chosen={chosen} ticked={ticked} onOrder={setOrder} onChoose={setChosen} onTick={setTicked} />
    </div>
  );
}

function Head({ job, sweep, ticked }: { job: Job; sweep: Sweep; ticked: string[] }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const updater = useCacheUpdater();
  const [asking, setAsking] = useState(false);
  const stop = useMutation({
    mutationFn: () => stopSweep(job.id),
    onSuccess: async (answer) => {
      updater.put(answer);
      await cache.invalidateQueries({ queryKey: runKeys.sweep(job.id) });
    },
    onError: (error) => notifyProblem(t("The sweep was not stopped"), error),
    onSettled: () => setAsking(false),
  });
  const ended = sweep.tasks.filter((task) => isTerminal(task.state)).length;
  const best = sweep.tasks.find((task) => task.task === sweep.best);
  const over = ended === sweep.tasks.length;
  return (
    <div className={classes.head}>
      <div className={classes.verdict}>
        {best !== undefined && sweep.metric !== null ? (
          <Text fw={600} data-testid="sweep-best">
            <Trophy size={16} style={{ verticalAlign: "-2px", marginRight: 6 }} color="var(--good)" aria-hidden />
            {t(titleOfBest(job, over), {
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
            {t("A task's values appear here when its program writes metrics.json, metrics.jsonl or TensorBoard's event files to $AITNE_METRICS.")}
          </Text>
        )}
      </div>
      <Group gap="xs">
        {ticked.length === 2 && (
          <Button
            renderRoot={(props) => <Link {...props} to={`/compare?a=${ticked[0]}&b=${ticked[1]}` as "/"} />}
            size="xs"
            leftSection={<GitCompareArrows size={15} />}
            data-testid="sweep-compare-two"
          >
            {t("Compare the two")}
          </Button>
        )}
        <Button variant="default" size="xs" leftSection={<Download size={15} />} onClick={() => save(job.name, csvOf(sweep))}>
          {t("CSV")}
        </Button>
        {!over && job.actions.includes("cancel") && (
          <Button variant="outline" color="red" size="xs" leftSection={<OctagonX size={15} />} onClick={() => setAsking(true)} data-testid="sweep-stop">
            {t("Stop the rest")}
          </Button>
        )}
      </Group>
      <Confirm
        opened={asking}
        title={t("Stop the rest of this sweep?")}
        action={t("Stop the rest")}
        keep={t("Let it go on")}
        busy={stop.isPending}
        onClose={() => setAsking(false)}
        onConfirm={() => stop.mutate()}
      >
        {best === undefined
          ? t("All tasks that have not ended are cancelled.")
          : t("All tasks that have not ended are cancelled, but task {{task}}, the best so far.", { task: best.task })}
      </Confirm>
    </div>
  );
}

function titleOfBest(job: Job, over: boolean): string {
  if (job.reason === "goal_reached") return msg("Goal reached: task {{task}}, {{metric}} {{value}}");
  return over ? msg("Best: task {{task}}, {{metric}} {{value}}") : msg("Best so far: task {{task}}, {{metric}} {{value}}");
}

interface TableProps {
  sweep: Sweep;
  rows: Sweep["tasks"];
  metrics: string[];
  order: Order;
  chosen: number | null;
  /** The jobs of the tasks that are to be compared: two at most, the one ticked first goes. */
  ticked: string[];
  onOrder: (order: Order) => void;
  onChoose: (task: number | null) => void;
  onTick: (ticked: string[]) => void;
}

function Table({ sweep, rows, metrics, order, chosen, ticked, onOrder, onChoose, onTick }: TableProps) {
  const { t } = useTranslation();
  const tick = (id: string) => onTick(ticked.includes(id) ? ticked.filter((each) => each !== id) : [...ticked.slice(-1), id]);
  const columns: { column: Column; title: string; number: boolean }[] = [
    { column: { kind: "task", name: "" }, title: t("Task"), number: false },
    { column: { kind: "state", name: "" }, title: t("State"), number: false },
    ...sweep.parameters.map((name) => ({ column: { kind: "parameter" as const, name }, title: name, number: true })),
    ...metrics.map((name) => ({ column: { kind: "metric" as const, name }, title: name, number: true })),
  ];
  const isOrder = (column: Column) => column.kind === order.column.kind && column.name === order.column.name;
  const best = sweep.tasks.find((task) => task.task === sweep.best);
  return (
    <div className={tableClasses.wrap}>
      <table className={`${tableClasses.table ?? ""} tabular`} aria-label={t("Settings of the sweep")} data-testid="sweep-table">
        <thead>
          <tr>
            {columns.map(({ column, title, number }) => (
              <th
                key={`${column.kind} ${column.name}`}
                scope="col"
                className={number ? tableClasses.num : undefined}
                aria-sort={isOrder(column) ? (order.descending ? "descending" : "ascending") : "none"}
              >
                <button
                  type="button"
                  className={classes.sort}
                  onClick={() => onOrder({ column, descending: isOrder(column) ? !order.descending : column.kind === "metric" && sweep.goal === "max" })}
                >
                  {title}
                  {isOrder(column) && (order.descending ? <ArrowDown size={12} aria-hidden /> : <ArrowUp size={12} aria-hidden />)}
                </button>
              </th>
            ))}
            {best && (
              <th scope="col">
                <span className="visually-hidden">{t("Compare")}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((task) => (
            <tr
              key={task.task}
              className={task.task === sweep.best ? classes.bestRow : task.task === chosen ? classes.chosenRow : undefined}
              onMouseEnter={() => onChoose(task.task)}
              onMouseLeave={() => onChoose(null)}
            >
              <td data-label={t("Task")}>
                <Group gap={8} wrap="nowrap" display="inline-flex">
                  <Checkbox
                    size="xs"
                    checked={ticked.includes(task.job_id)}
                    onChange={() => tick(task.job_id)}
                    aria-label={t("Compare task {{task}}", { task: task.task })}
                    data-testid="sweep-tick"
                  />
                  <Anchor component={Link} to={`/jobs/${task.job_id}`} size="sm">
                    {task.task}
                    {task.task === sweep.best && <span className="visually-hidden">{t("the best")}</span>}
                  </Anchor>
                </Group>
              </td>
              <td data-label={t("State")}>{lookOf(task.state).label}</td>
              {sweep.parameters.map((name) => (
                <td key={`p ${name}`} data-label={name} className={tableClasses.num}>
                  {formatCell(task.parameters[name] ?? null)}
                </td>
              ))}
              {metrics.map((name) => (
                <td key={`m ${name}`} data-label={name} className={tableClasses.num}>
                  {formatCell(task.values[name] ?? null)}
                </td>
              ))}
              {best && <td className={tableClasses.num}>{task.task !== best.task && <CompareLink task={task} best={best} />}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function CompareLink({ task, best }: { task: Sweep["tasks"][number]; best: Sweep["tasks"][number] }) {
  const { t } = useTranslation();
  const label = t("Compare task {{task}} with the best", { task: task.task });
  return (
    <Tooltip label={label}>
      <ActionIcon
        renderRoot={(props) => <Link {...props} to={`/compare?a=${best.job_id}&b=${task.job_id}` as "/"} />}
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
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "sweep"}.csv`;
  link.click();
  URL.revokeObjectURL(address);
}
