import { useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { locale } from "@/i18n/locale";
import { DAY, formatClock } from "@/lib/time";
import classes from "./MetricChart.module.css";

export interface Series {
  /** Unix seconds, ascending. */
  times: number[];
  lines: { name: string; values: (number | null)[] }[];
}

interface Props {
  label: string;
  series: Series;
  /** The requested amount: the axis reaches at least this value. */
  limit: number;
  format: (value: number) => string;
  colour: "indigo" | "moon";
  /** Whether the second line is another quantity rather than another node; it has another style. */
  contrast?: boolean;
  /** Whether a missing value interrupts the line; otherwise it belongs to another node only. */
  gaps?: boolean;
  /** Receives the time of the point that was selected; the same must be possible with the keyboard elsewhere. */
  onPick?: (seconds: number) => void;
}

const HEIGHT_PX = 132;
/** Charts of one page share their cursor. */
const SYNC = uPlot.sync("usage");

export function UsageChart({ label, series, limit, format, colour, contrast = false, gaps = false, onPick }: Props) {
  const { ref: measure, width } = useElementSize<HTMLDivElement>();
  const box = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme();
  const chart = useRef<uPlot | null>(null);
  const latest = useRef(series);
  const [index, setIndex] = useState<number | null>(null);
  const names = series.lines.map((line) => line.name).join("\n");
  const picked = useRef(onPick);

  useEffect(() => {
    picked.current = onPick;
  }, [onPick]);

  useEffect(() => {
    latest.current = series;
    chart.current?.setData(dataOf(series));
  }, [series]);

  useEffect(() => {
    if (box.current === null || width === 0) return undefined;
    const style = getComputedStyle(document.documentElement);
    const css = (name: string) => style.getPropertyValue(name).trim();
    const plot = new uPlot(
      {
        width,
        height: HEIGHT_PX,
        // Half of the last tick's label extends beyond the end of the axis.
        padding: [8, 28, 0, 0],
        cursor: { sync: { key: SYNC.key }, y: false, points: { size: 6 } },
        legend: { show: false },
        hooks: {
          setCursor: [(self) => setIndex(self.cursor.idx ?? null)],
          ready: [
            (self) => {
              if (picked.current) self.over.style.cursor = "pointer";
              self.over.addEventListener("click", () => {
                const time = self.data[0][self.cursor.idx ?? -1];
                if (time !== undefined) picked.current?.(time);
              });
            },
          ],
        },
        scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(limit, (max || 0) * 1.1)] } },
        axes: [
          { stroke: css("--mantine-color-dimmed"), grid: { show: false }, ticks: { show: false }, size: 24, space: 64, values: (_, ticks) => ticks.map((tick) => clock(tick, ticks)), font: "11px system-ui" },
          {
            stroke: css("--mantine-color-dimmed"),
            grid: { stroke: css("--line"), width: 1 },
            ticks: { show: false },
            size: 62,
            splits: () => [0, limit / 2, limit],
            values: (_, ticks) => ticks.map(format),
            font: "11px system-ui",
          },
        ],
        series: [
          {},
          ...names.split("\n").map((name, index) => ({
            label: name,
            stroke: css(contrast && index > 0 ? `--mantine-color-${colour === "moon" ? "indigo" : "moon"}-5` : `--mantine-color-${colour}-${index === 0 ? 5 : 3}`),
            ...(contrast && index > 0 ? { dash: [4, 4] } : {}),
            width: 1.6,
            ...(names.includes("\n") ? {} : { fill: `${css(`--mantine-color-${colour}-5`)}22` }),
            points: { show: false },
            spanGaps: !gaps,
          })),
        ],
      },
      dataOf(latest.current),
      box.current,
    );
    chart.current = plot;
    return () => {
      chart.current = null;
      plot.destroy();
    };
    // Data is updated by setData above; any other change creates a new chart.
  }, [width, scheme, names, limit, format, colour, contrast, gaps]);

  return (
    <div ref={measure} role="img" aria-label={label} style={{ position: "relative", height: HEIGHT_PX, overflow: "hidden", contain: "inline-size" }}>
      <div ref={box} />
      {index !== null && <span className={`${classes.readout ?? ""} tabular`}>{readout(series, index, format)}</span>}
    </div>
  );
}

/** Number of lines whose values are shown at the pointer. */
const MOST_VALUES = 3;

/** The time and the values at the pointer. */
function readout(series: Series, index: number, format: (value: number) => string): string {
  const time = series.times[index];
  if (time === undefined) return "";
  const values = series.lines.slice(0, MOST_VALUES).flatMap((line) => {
    const value = line.values[index] ?? null;
    return value === null ? [] : [format(value)];
  });
  const at = new Date(time * 1000);
  const isLong = time - (series.times[0] ?? time) > DAY / 2 || (series.times.at(-1) ?? time) - time > DAY / 2;
  return [isLong ? formatClock(at, new Date()) : at.toLocaleTimeString(locale()), ...values].join(" · ");
}

/** The time of day, or the day on an axis of days. */
function clock(seconds: number, ticks: number[]): string {
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0);
  if (step >= DAY) return new Date(seconds * 1000).toLocaleDateString(locale(), { day: "numeric", month: "short" });
  const short = step % 60 !== 0;
  return new Date(seconds * 1000).toLocaleTimeString(locale(), {
    hour: "numeric",
    minute: "2-digit",
    ...(short ? { second: "2-digit", hour12: false } : {}),
  });
}

function dataOf(series: Series): uPlot.AlignedData {
  return [series.times, ...series.lines.map((line) => line.values)];
}

export default UsageChart;
