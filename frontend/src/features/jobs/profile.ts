/** The communication profile of a job as texts and series. */
import i18next from "i18next";
import type { JobProfile } from "@/api/types";
import { locale } from "@/i18n/locale";
import { formatBytes, formatNumber, withUnit } from "@/lib/units";
import type { Series } from "@/components/UsageChart";

type Row = JobProfile["table"][number];

/** 0.0000063 -> "6.3 µs", 0.0115 -> "11.5 ms", 2.5 -> "2.5 s". */
export function formatSpan(seconds: number): string {
  if (seconds >= 1) return withUnit(formatThreeDigits(seconds), "s");
  if (seconds >= 1e-3) return withUnit(formatThreeDigits(seconds * 1e3), "ms");
  return withUnit(formatThreeDigits(seconds * 1e6), "µs");
}

/** 0.4607 -> "46 %"; unknown values are a dash. */
export function formatShare(share: number | null): string {
  if (share === null) return "–";
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) return `< ${withUnit(formatNumber(0.1), "%")}`;
  const digits = percent > 0 && percent < 10 ? 1 : 0;
  return withUnit(percent.toLocaleString(locale(), { minimumFractionDigits: digits, maximumFractionDigits: digits }), "%");
}

/** The message sizes of a row: "up to 128 B", "1 MiB – 16 MiB", "over 64 MiB". */
export function sizeOf(row: Pick<Row, "from_bytes" | "to_bytes">): string {
  if (row.to_bytes === null) return i18next.t("over {{size}}", { size: formatBytes(row.from_bytes - 1) });
  if (row.from_bytes === 0) return i18next.t("up to {{size}}", { size: formatBytes(row.to_bytes) });
  return `${formatBytes(row.from_bytes - 1)} – ${formatBytes(row.to_bytes)}`;
}

/** A summary of the profile. */
export function verdictOf(profile: JobProfile): string {
  const { communicating, blocked, overlap, steps } = profile;
  if (steps === 0 || blocked === null) {
    return i18next.t("No training steps recorded; only collectives are counted. Use hvd.DistributedOptimizer to record steps.");
  }
  if (blocked < 0.05) {
    const hidden = communicating !== null && overlap !== null && communicating >= 0.05;
    return hidden
      ? i18next.t("Little exposed communication: almost all of it overlaps with computation.")
      : i18next.t("Little exposed communication.");
  }
  return i18next.t("{{share}} exposed communication.", { share: formatShare(blocked) });
}

/** Describes the straggler; null without one. */
export function stragglerOf(profile: JobProfile): string | null {
  const straggler = profile.straggler;
  if (straggler === null) return null;
  return i18next.t("Straggler: rank {{rank}} on node {{node}} is {{time}} slower in each step ({{share}} of the step time).", {
    rank: straggler.rank,
    node: straggler.node,
    time: formatSpan(straggler.behind_s),
    share: formatShare(straggler.share),
  });
}

/** "400 steps of 115 ms on 4 ranks". */
export function extentOf(profile: JobProfile): string {
  const ranks = i18next.t("{{count}} ranks", { count: profile.size });
  if (profile.steps === 0) return ranks;
  const count = profile.steps;
  return profile.step_s === null
    ? i18next.t("{{count}} steps on {{ranks}}", { count, ranks })
    : i18next.t("{{count}} steps of {{time}} on {{ranks}}", { count, time: formatSpan(profile.step_s), ranks });
}

/** Shares of each step in percent over time. Points have a time relative to the first. */
export function historyOf(profile: JobProfile): Series {
  const end = profile.history.at(-1)?.t_s ?? 0;
  const zero = Date.parse(profile.written_at) / 1000 - end;
  const percent = (share: number | null) => (share === null ? null : share * 100);
  return {
    times: profile.history.map((point) => zero + point.t_s),
    lines: [
      { name: i18next.t("communication"), values: profile.history.map((point) => percent(point.communicating)) },
      { name: i18next.t("exposed communication"), values: profile.history.map((point) => percent(point.blocked)) },
    ],
  };
}

/** Each row's share of the total communication time. */
export function sharesOf(rows: readonly Row[]): number[] {
  const total = rows.reduce((sum, row) => sum + row.time_s, 0);
  return rows.map((row) => (total === 0 ? 0 : row.time_s / total));
}

function formatThreeDigits(value: number): string {
  return formatNumber(Number(value.toPrecision(3)));
}
