/** Formats times and durations in the selected language. The caller passes "now". */
import i18next from "i18next";
import { locale } from "@/i18n/locale";
import { withUnit } from "@/lib/units";

export const MINUTE = 60;
export const HOUR = 3_600;
export const DAY = 86_400;

/** 3.2 -> "3.2 s", 75 -> "1 min 15 s", 5400 -> "1 h 30 min", 100000 -> "1 d 3 h". Two units at most. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 9.95) return withUnit(s.toLocaleString(locale(), { minimumFractionDigits: 1, maximumFractionDigits: 1 }), "s");
  const whole = Math.round(s);
  if (whole < MINUTE) return withUnit(whole, "s");
  if (whole < HOUR) return join(Math.floor(whole / MINUTE), "min", whole % MINUTE, "s");
  const minutes = Math.floor(whole / MINUTE);
  if (minutes < 24 * 60) return join(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.floor(whole / HOUR);
  return join(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** A duration that is updated every second: in whole seconds, so that its width is stable. */
export function formatTicking(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  return s < MINUTE ? withUnit(s, "s") : formatDuration(s);
}

function join(a: number, unitA: string, b: number, unitB: string): string {
  const first = withUnit(a, unitA);
  return b === 0 ? first : `${first} ${withUnit(b, unitB)}`;
}

/** "just now", "5 min ago", "in 3 h", "2 d ago". */
export function formatRelative(at: Date, now: Date): string {
  const delta = (at.getTime() - now.getTime()) / 1000;
  const size = Math.abs(delta);
  if (size < 10) return i18next.t("just now");
  // A new item with a lifetime of a week expires "in 7 d", also a moment later.
  const count = (unit: number) => (delta < 0 ? Math.floor(size / unit) : Math.round(size / unit));
  const time =
    size < MINUTE
      ? withUnit(count(1), "s")
      : size < HOUR
        ? withUnit(count(MINUTE), "min")
        : size < DAY
          ? withUnit(count(HOUR), "h")
          : withUnit(count(DAY), "d");
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

/** A period; parts common to both ends appear once: "Nov 22, 2:28 – 4:00 PM UTC". */
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

/** A time with date and zone, to the minute. */
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

/** Seconds between two times; without an end, until now. Never negative. */
export function secondsBetween(from: string, to: string | null | undefined, now: Date): number {
  const end = to ? new Date(to).getTime() : now.getTime();
  return Math.max(0, (end - new Date(from).getTime()) / 1000);
}

/** Seconds as a duration of the platform's syntax: 5400 -> "1h30m". */
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

/** "1h30m" -> 5400; null for other texts. The platform validates it again. */
export function parseDuration(text: string): number | null {
  const compact = text.replace(/\s+/g, "").replace(/min/gi, "m");
  const match = WORDS.exec(compact);
  if (compact === "" || match === null) return null;
  const sizes = [7 * DAY, DAY, HOUR, MINUTE, 1];
  return sizes.reduce((sum, size, i) => sum + size * Number(match[i + 1] ?? 0), 0);
}
