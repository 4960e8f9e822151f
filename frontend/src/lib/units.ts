/** Amounts of memory in powers of 1024, as in the scheduler and in the platform's messages. */
import { locale } from "@/i18n/locale";

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;

/** An amount with its unit, between which no line breaks: (16, "GiB") -> "16 GiB". */
export function withUnit(amount: number | string, unit: string): string {
  return `${amount}\u00a0${unit}`;
}

/** The text with its amounts unbroken: "1.5 GiB", "3 s", "80 %". */
export function unbroken(text: string): string {
  return text.replace(/(\d) (?=(?:[KMGTP]iB|B|s|ms|min|h|d|%|W|Wh|kWh)(?![\p{L}\d]))/gu, "$1\u00a0");
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** 17179869184 -> "16 GiB", 1610612736 -> "1.5 GiB"; with one decimal at most, from 100 on with none. */
export function formatBytes(bytes: number): string {
  let value = Math.max(0, bytes);
  let unit = 0;
  // What rounds to 1024 is 1 of the next unit.
  while (rounded(value, unit) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return withUnit(rounded(value, unit).toLocaleString(locale(), { useGrouping: false }), UNITS[unit] ?? "B");
}

function rounded(value: number, unit: number): number {
  const tenths = Math.round(value * 10);
  return unit === 0 || tenths >= 1000 ? Math.round(value) : tenths / 10;
}

/** Bytes in the shortest exact form of the platform's syntax: "16G", "1536M". */
export function memoryText(bytes: number): string {
  const whole = Math.round(bytes);
  let unit = 0;
  let value = whole;
  while (value !== 0 && value % 1024 === 0 && unit < 5) {
    value /= 1024;
    unit += 1;
  }
  return `${value}${"BKMGTP".charAt(unit)}`;
}

/** "16G" -> bytes; null if the text is not an amount in the platform's syntax. */
export function parseMemory(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([BKMGTP])/i.exec(text.trim());
  return match === null ? null : Math.round(Number(match[1]) * 1024 ** "BKMGTP".indexOf((match[2] ?? "B").toUpperCase()));
}

/** The stops of a memory slider: powers of two and half-steps between the bounds, bounds included. */
export function memoryStops(min: number, max: number, extra: readonly number[] = []): number[] {
  const stops = new Set<number>([min, max]);
  for (let size = 128 * MIB; size <= max; size *= 2) {
    for (const stop of [size, size * 1.5]) {
      if (stop > min && stop < max && (stop >= GIB || stop === size)) stops.add(stop);
    }
  }
  for (const value of extra) if (value >= min && value <= max) stops.add(value);
  return [...stops].sort((a, b) => a - b);
}

/** 1.5 -> "1.5", 2 -> "2"; at most two decimals; small positive values are never "0". */
export function formatNumber(value: number): string {
  if (value > 0 && value < 0.005) return `< ${formatNumber(0.01)}`;
  return value.toLocaleString(locale(), { maximumFractionDigits: 2 });
}

/** 540000 -> "150 Wh", 7200000 -> "2 kWh". */
export function formatEnergy(joules: number): string {
  const wattHours = joules / 3_600;
  return wattHours < 1_000 ? withUnit(formatNumber(tenths(wattHours)), "Wh") : withUnit(formatNumber(tenths(wattHours / 1_000)), "kWh");
}

function tenths(value: number): number {
  return value < 100 ? Math.round(value * 10) / 10 : Math.round(value);
}
