import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { formatClock } from "@/lib/time";
import { columnsOf, formatQuantity, type Quantity, type Row, sharesOverTime } from "./rank-metrics";
import classes from "./RankMetricsPanel.module.css";

interface Props {
  rows: readonly Row[];
  span: { from: number; to: number };
  label: string;
  quantity: Quantity;
}

const ROW_PX = 7;
const CELL_PX = 10;
/** Width of the mark of a straggler at the left edge. */
const MARK_PX = 12;

/** A line for each row and a cell for each interval, darker for more; the table has the same as text. */
export function RankHeatMap({ rows, span, label, quantity }: Props) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<{ row: number; column: number } | null>(null);
  const columns = columnsOf(rows);
  const shares = useMemo(() => rows.map((row) => sharesOverTime(row, span, columns)), [rows, span, columns]);
  const width = MARK_PX + columns * CELL_PX;
  const height = rows.length * ROW_PX;

  useEffect(() => {
    const drawing = canvas.current?.getContext("2d");
    if (!drawing) return;
    const style = getComputedStyle(document.documentElement);
    const [busy, warn] = ["--mantine-color-indigo-5", "--warn"].map((name) => style.getPropertyValue(name).trim());
    drawing.clearRect(0, 0, width, height);
    for (const [row, line] of shares.entries()) {
      if (rows[row]?.straggler === true) {
        drawing.globalAlpha = 1;
        drawing.fillStyle = warn ?? "";
        drawing.fillRect(0, row * ROW_PX, MARK_PX - 4, ROW_PX - 1);
      }
      drawing.fillStyle = busy ?? "";
      for (const [column, share] of line.entries()) {
        if (share === null) continue;
        drawing.globalAlpha = 0.08 + 0.92 * share;
        drawing.fillRect(MARK_PX + column * CELL_PX, row * ROW_PX, CELL_PX, ROW_PX - 1);
      }
    }
  }, [rows, shares, width, height, scheme]);

  return (
    <div>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <div className={classes.map} tabIndex={0} role="group" aria-label={label}>
        <canvas
          ref={canvas}
          width={width}
          height={height}
          style={{ width: "100%", height }}
          aria-hidden
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const x = ((event.clientX - box.left) / box.width) * width - MARK_PX;
            setPointed({ row: Math.floor(((event.clientY - box.top) / box.height) * rows.length), column: Math.max(0, Math.floor(x / CELL_PX)) });
          }}
          onPointerLeave={() => setPointed(null)}
        />
      </div>
      <div className={classes.legend}>
        <span>
          <i style={{ background: "color-mix(in srgb, var(--mantine-color-indigo-5) 8%, transparent)" }} aria-hidden /> {t("Idle")}
        </span>
        <span>
          <i style={{ background: "var(--mantine-color-indigo-5)" }} aria-hidden /> {formatQuantity(quantity, rows[0]?.limit ?? 0)}
        </span>
        {rows.some(({ straggler }) => straggler) && (
          <span>
            <i style={{ background: "var(--warn)" }} aria-hidden /> {t("Straggler")}
          </span>
        )}
        <span className={`${classes.last ?? ""} tabular`} aria-hidden>
          {pointed !== null && readout(rows, shares, pointed, { columns, span, quantity })}
        </span>
      </div>
    </div>
  );
}

/** Name, node, time and value at the pointer. */
function readout(
  rows: readonly Row[],
  shares: readonly (number | null)[][],
  { row, column }: { row: number; column: number },
  { columns, span, quantity }: { columns: number; span: Props["span"]; quantity: Quantity },
): string {
  const pointed = rows[row];
  if (pointed === undefined) return "";
  const share = shares[row]?.[column] ?? null;
  const time = new Date(span.from + ((span.to - span.from) * (column + 0.5)) / columns);
  const value = share === null ? "–" : formatQuantity(quantity, share * pointed.limit);

  return [pointed.name, pointed.node, formatClock(time, new Date()), value]
    .filter((text) => text !== null)
    .join(" · ");
}
