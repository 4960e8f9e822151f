import { useElementSize } from "@mantine/hooks";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Sweep, SweepTask } from "@/api/runs";
import { type Axis, axisOf, formatCell } from "@/lib/sweep";
import classes from "./SweepPanel.module.css";

const HEIGHT = 230;
const TOP = 26;
const BOTTOM = 14;
const SIDE = 58;

interface Props {
  sweep: Sweep;
  metric: string;
  highlighted: number | null;
  onHighlight: (task: number | null) => void;
}

/** Parallel coordinates: an axis for each parameter, the metric's last, and a line for each task. */
export function SweepPlot({ sweep, metric, highlighted, onHighlight }: Props) {
  const { t } = useTranslation();
  const { ref, width } = useElementSize<HTMLDivElement>();
  const axes = useMemo(
    () => [
      ...sweep.parameters.map((name) => axisOf(sweep.tasks, { kind: "parameter", name })),
      axisOf(sweep.tasks, { kind: "metric", name: metric }),
    ],
    [sweep, metric],
  );
  const metricAxis = axes[axes.length - 1];
  const x = (index: number) => SIDE + (index * (width - 2 * SIDE)) / Math.max(1, axes.length - 1);
  const y = (at: number) => HEIGHT - BOTTOM - at * (HEIGHT - TOP - BOTTOM);
  // The best are drawn last, above the others.
  const tasks = sweep.tasks
    .filter((task) => metricAxis?.at(task) !== null)
    .sort((a, b) => Number(a.task === sweep.best) - Number(b.task === sweep.best) || (metricAxis?.at(a) ?? 0) - (metricAxis?.at(b) ?? 0));
  const label = t("Parallel coordinates of {{count}} tasks by {{metric}}", { count: tasks.length, metric });
  return (
    <div ref={ref} className={classes.plot}>
      {width > 0 && (
        <svg width={width} height={HEIGHT} role="img" aria-label={label} onMouseLeave={() => onHighlight(null)}>
          {tasks.map((task) => (
            <path
              key={task.task}
              d={pathOf(task, axes, x, y)}
              className={lineClass(task, sweep.best, highlighted)}
              style={{ stroke: colourOf(task, metricAxis, sweep.goal) }}
              onMouseEnter={() => onHighlight(task.task)}
            >
              <title>{`${task.task}: ${sweep.parameters.map((name) => `${name} ${formatCell(task.parameters[name] ?? null)}`).join(", ")}`}</title>
            </path>
          ))}
          {axes.map((axis, index) => (
            <g key={`${axis.column.kind} ${axis.column.name}`} transform={`translate(${x(index)} 0)`}>
              <line y1={TOP} y2={HEIGHT - BOTTOM} className={classes.axis} />
              <text y={14} textAnchor="middle" className={classes.axisName}>
                {axis.column.name}
              </text>
              {axis.ticks.map((tick) => (
                <text key={tick.label} x={index === axes.length - 1 ? 6 : -6} y={y(tick.at) + 4} textAnchor={index === axes.length - 1 ? "start" : "end"} className={classes.tick}>
                  {tick.label.length > 8 ? `${tick.label.slice(0, 7)}…` : tick.label}
                </text>
              ))}
            </g>
          ))}
        </svg>
      )}
    </div>
  );
}

function pathOf(task: SweepTask, axes: Axis[], x: (index: number) => number, y: (at: number) => number): string {
  const points = axes.flatMap((axis, index) => {
    const at = axis.at(task);
    return at === null ? [] : [`${x(index).toFixed(1)} ${y(at).toFixed(1)}`];
  });
  return `M${points.join("L")}`;
}

function lineClass(task: SweepTask, best: number | null, highlighted: number | null): string {
  const kind = task.task === highlighted ? classes.chosen : task.task === best ? classes.best : "";
  return `${classes.line ?? ""} ${kind ?? ""}`;
}

/** The line's colour, by the metric's distance from the goal. */
function colourOf(task: SweepTask, axis: Axis | undefined, goal: Sweep["goal"]): string {
  const at = axis?.at(task) ?? 0;
  const good = Math.round(100 * (goal === "max" ? at : 1 - at));
  return `color-mix(in oklab, var(--mantine-color-moon-6) ${good}%, var(--mantine-color-indigo-4))`;
}
