/** Times and durations as people read them, in their language. The caller passes "now". */
import i18next from "i18next";
import { locale } from "@/i18n/locale";

export const MINUTE = 60;
export const HOUR = 3_600;
export const DAY = 86_400;

/** 3.2 -> "3.2 s", 75 -> "1 min 15 s", 5400 -> "1 h 30 min", 100000 -> "1 d 3 h". Two units at most. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toLocaleString(locale(), { minimumFractionDigits: 1, maximumFractionDigits: 1 })} s`;
  const whole = Math.round(s);
  if (whole < MINUTE) return `${whole} s`;
  if (whole < HOUR) return join(Math.floor(whole / MINUTE), "min", whole % MINUTE, "s");
  const minutes = Math.floor(whole / MINUTE);
  if (minutes < 24 * 60) return join(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.floor(whole / HOUR);
  return join(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** For something that counts: whole seconds, so that the digits do not dance. */
export function formatTicking(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  return s < MINUTE ? `${s} s` : formatDuration(s);
}

function join(a: number, unitA: string, b: number, unitB: string): string {
  return b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`;
}

/** "just now", "5 min ago", "in 3 h", "2 d ago". */
export function formatRelative(at: Date, now: Date): string {
  const delta = (at.getTime() - now.getTime()) / 1000;
  const size = Math.abs(delta);
  if (size < 10) return i18next.t("just now");
  // What is made for a week ends in 7 days, also a moment later.
  const count = (unit: number) => (delta < 0 ? Math.floor(size / unit) : Math.round(size / unit));
  const time =
    size < MINUTE
      ? `${count(1)} s`
      : size < HOUR
        ? `${count(MINUTE)} min`
        : size < DAY
          ? `${count(HOUR)} h`
          : `${count(DAY)} d`;
  return delta < 0 ? i18next.t("{{time}} ago", { time }) : i18next.t("in {{time}}", { time });
}

/** The full local time with its zone, for tooltips. */
export function formatAbsolute(at: Date): string {
  return at.toLocaleString(locale(), {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "numeric",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short",
  });
}

/** A period's days and minutes, what both ends share said once: "Nov 22, 2:28 – 4:00 PM UTC". */
export function formatPeriod(from: Date, until: Date): string {
  return new Intl.DateTimeFormat(locale(), {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "numeric",
    minute: "2-digit",
    timeZoneName: "short",
  }).formatRange(from, until);
}

/** A moment to the minute, for what is planned or was counted. */
export function formatMoment(at: Date): string {
  return at.toLocaleString(locale(), { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short" });
}

/** The time of day, with the date when it is not today's. */
export function formatClock(at: Date, now: Date): string {
  const sameDay = at.toDateString() === now.toDateString();
  return at.toLocaleString(locale(), {
    ...(sameDay ? {} : { month: "short", day: "numeric" }),
    hour: "numeric",
    minute: "2-digit",
  });
}

/** Seconds between two moments; an end that is missing is now. Never negative. */
export function secondsBetween(from: string, to: string | null | undefined, now: Date): number {
  const end = to ? new Date(to).getTime() : now.getTime();
  return Math.max(0, (end - new Date(from).getTime()) / 1000);
}

/** Seconds in the words the platform reads back: 5400 -> "1h30m". */
export function durationWords(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  let text = "";
  for (const [unit, size] of [
    ["d", DAY],
    ["h", HOUR],
    ["m", MINUTE],
    ["s", 1],
  ] as const) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return text || "0s";
}

const WORDS = /^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/i;

/** "1h30m" -> 5400; null when it is not such a duration. The platform has the last word. */
export function parseDuration(text: string): number | null {
  const compact = text.replace(/\s+/g, "").replace(/min/gi, "m");
  const match = WORDS.exec(compact);
  if (compact === "" || match === null) return null;
  const sizes = [7 * DAY, DAY, HOUR, MINUTE, 1];
  return sizes.reduce((sum, size, i) => sum + size * Number(match[i + 1] ?? 0), 0);
}
