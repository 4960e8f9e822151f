/** The rows of a planned placement. */
import i18next from "i18next";
import type { LeafUse, PlacementPlan } from "@/api/topology";
import { formatDuration } from "@/lib/time";
import { formatNumber } from "@/lib/units";

/** More names are counted. */
const MOST_NAMED = 8;

/** "gpu01, gpu02 and 6 more". */
export function someOf(names: readonly string[]): string {
  const more = names.length - MOST_NAMED;
  return names.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` ${i18next.t("and {{count}} more", { count: more })}` : "");
}

/** "leaf0 (4), leaf1 (2)": each leaf with its number of nodes. */
export function leavesText(leaves: readonly LeafUse[]): string {
  return someOf(leaves.map(({ name, nodes }) => `${name} (${nodes})`));
}

/** "5 → 3 crossings, busiest uplink 2 → 1"; null where it is unknown. */
export function costText({ crossings, busiest_uplink: busiest }: Pick<PlacementPlan, "crossings" | "busiest_uplink">): string | null {
  if (crossings === null || busiest === null) return null;
  const change = (given: number, chosen: number | null) => (chosen === null || chosen === given ? String(given) : `${given} → ${chosen}`);
  return i18next.t("{{crossings}} crossings, busiest uplink {{busiest}}", { crossings: change(crossings.given, crossings.chosen), busiest: change(busiest.given, busiest.chosen) });
}

/** For how many leaves the job waits, and how long; null if it does not wait for them. */
export function waitText({ max_leaves: count, max_leaves_wait_s: wait }: Pick<PlacementPlan, "max_leaves" | "max_leaves_wait_s">): string | null {
  if (count === null) return null;
  return wait === null
    ? i18next.t("waits for {{count}} leaf switches without a limit", { count })
    : i18next.t("waits for {{count}} leaf switches for up to {{time}}", { count, time: formatDuration(wait) });
}

/** "leaf2 (4), in 10 min, score 2.4". */
export function alternativeText({ leaves, wait_s: wait, score }: PlacementPlan["alternatives"][number]): string {
  const later = wait > 0 ? [i18next.t("in {{time}}", { time: formatDuration(Math.ceil(wait)) })] : [];
  return [leavesText(leaves), ...later, i18next.t("score {{score}}", { score: formatNumber(score) })].join(", ");
}
