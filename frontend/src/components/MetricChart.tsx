import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { alignedData, type MetricLine } from "@/lib/metric-lines";
import { formatCell } from "@/lib/sweep";
import classes from "./MetricChart.module.css";

interface Props {
  /** Name of the metric: the title and the label of the vertical axis. */
  metric: string;
  /** Label of the horizontal axis. */
  axis: string;
  lines: readonly MetricLine[];
}

const HEIGHT_PX = 240;
/** Narrower, there is no room beside the axes: the layout is not complete yet. */
const LEAST_WIDTH_PX = 160;
/** Mantine's palettes; from the second round on, lines are dashed. */
const PALETTES = ["indigo", "orange", "moon", "pink", "lime", "grape", "gray", "red"];

/** Curves of one metric with axes, a legend, and the values at the pointer. */
export function MetricChart({ metric, axis, lines }: Props) {
  const { ref: measure, width } = useElementSize<HTMLDivElement>();
  const box = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme();
  const chart = useRef<uPlot | null>(null);
  const data = useMemo(() => alignedData(lines), [lines]);
  const latest = useRef(data);
  const [index, setIndex] = useState<number | null>(null);
  const names = lines.map((line) => line.name).join("\n");

  useEffect(() => {
    latest.current = data;
    chart.current?.setData(data);
  }, [data]);

  useEffect(() => {
    if (box.current === null || width < LEAST_WIDTH_PX) return undefined;
    const style = getComputedStyle(document.documentElement);
    const css = (name: string) => style.getPropertyValue(name).trim();
    const text = { stroke: css("--mantine-color-dimmed"), font: "11px system-ui", labelFont: "11.5px system-ui", ticks: { show: false } };
    const plot = new uPlot(
      {
        width,
        height: HEIGHT_PX,
        padding: [10, 16, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { size: 7 } },
        scales: { x: { time: false } },
        axes: [
          { ...text, grid: { show: false }, size: 28, label: axis, labelSize: 16, values: (_, ticks) => ticks.map((tick) => formatCell(tick)) },
          { ...text, grid: { stroke: css("--line"), width: 1 }, size: 58, label: metric, labelSize: 18, values: (_, ticks) => ticks.map((tick) => formatCell(tick)) },
        ],
        series: [
          {},
          ...names.split("\n").map((label, position) => ({
            label,
            stroke: css(colourOf(position)),
            width: 1.8,
            spanGaps: true,
            points: { show: latest.current[0].length < 30, size: 5 },
            ...(position < PALETTES.length ? {} : { dash: [6, 4] }),
          })),
        ],
        hooks: { setCursor: [(self) => setIndex(self.cursor.idx ?? null)] },
      },
      latest.current,
      box.current,
    );
    chart.current = plot;
    return () => {
      chart.current = null;
      plot.destroy();
    };
    // Data is updated by setData above; any other change creates a new chart.
  }, [width, scheme, names, metric, axis]);

  const at = index === null ? null : (data[0][index] ?? null);
  return (
    <figure className={classes.figure} aria-label={metric}>
      <figcaption className={classes.title}>
        <strong>{metric}</strong>
        {at !== null && (
          <span className="tabular">
            {axis} {formatCell(at)}
          </span>
        )}
      </figcaption>
      <div ref={measure} style={{ height: HEIGHT_PX, overflow: "hidden" }}>
        <div ref={box} aria-hidden />
      </div>
      <ul className={`${classes.legend ?? ""} tabular`}>
        {lines.map((line, position) => (
          <li key={line.name}>
            <span className={classes.swatch} style={{ background: `var(${colourOf(position)})` }} aria-hidden />
            <span className="truncate">{line.name}</span> <b>{formatCell(valueOf(data[position + 1], index))}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function colourOf(position: number): string {
  return `--mantine-color-${PALETTES[position % PALETTES.length] ?? "indigo"}-${position === 2 ? 5 : 6}`;
}

/** The value at the pointer, or the last one. */
function valueOf(values: ArrayLike<number | null | undefined> | undefined, index: number | null): number | null {
  if (values === undefined) return null;
  const known = Array.from(values, (value) => value ?? null);
  if (index !== null) return known[index] ?? null;
  return known.filter((value) => value !== null).at(-1) ?? null;
}

export default MetricChart;
