/** The forecast of free GPUs as a step line and as text. */
import i18next from "i18next";
import type { GpuCapacity } from "@/api/types";
import { formatDuration } from "@/lib/time";

export const HORIZON_H = 12;

/** The corner points of a step line in a box of `width` by `height`: time to the right, more free GPUs up. */
export function stepPath(gpu: GpuCapacity, now: Date, width: number, height: number): string {
  const span = HORIZON_H * 3_600_000;
  const x = (at: string) => Math.min(width, Math.max(0, ((Date.parse(at) - now.getTime()) / span) * width));
  const y = (free: number) => height - (gpu.total === 0 ? 0 : free / gpu.total) * height;
  const points: string[] = [];
  let level = gpu.forecast[0]?.free ?? gpu.free;
  points.push(`M0 ${round(y(level))}`);
  for (const step of gpu.forecast.slice(1)) {
    const at = round(x(step.at));
    if (at >= width) break;
    points.push(`H${at}`, `V${round(y(step.free))}`);
    level = step.free;
  }
  points.push(`H${width}`);
  return points.join(" ");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** The expected availability of a GPU type. */
export function freeGpusText(gpu: GpuCapacity, now: Date): string {
  if (gpu.free > 0) {
    return gpu.waiting > 0 ? i18next.t("{{count}} GPUs requested by pending jobs", { count: gpu.waiting }) : i18next.t("free now");
  }
  if (gpu.next_free_at === null) return gpu.used === 0 ? i18next.t("on unavailable nodes") : i18next.t("time unknown");
  const time = formatDuration(Math.max(60, Math.round((Date.parse(gpu.next_free_at) - now.getTime()) / 60_000) * 60));
  const next = i18next.t("next free within {{time}}", { time });
  return gpu.waiting > 0 ? `${next} · ${i18next.t("{{count}} GPUs requested by pending jobs", { count: gpu.waiting })}` : next;
}
