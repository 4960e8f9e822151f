/** A user's storage areas as rows with usage and warnings. */
import i18next from "i18next";
import type { AreaFacts, Quota } from "@/api/catalog";
import { formatBytes } from "@/lib/units";

/** Share of a limit from which a warning is shown. */
export const NEARLY_FULL = 0.9;

export interface StorageRow {
  key: string;
  title: string;
  path: string;
  /** Null: unknown, or no limit. */
  used: number | null;
  total: number | null;
  /** "41 GiB of 50 GiB" of a quota, "400 GiB of 900 GiB free" of a shared file system. */
  text: string;
  /** The problem of the storage area; null without one. */
  warning: string | null;
}

export function storageRows(areas: readonly AreaFacts[]): StorageRow[] {
  return areas.map(rowOf);
}

function rowOf(facts: AreaFacts): StorageRow {
  const { area } = facts;
  const title = area.project === null ? area.name : `${area.name} ${area.project}`;
  const base = { key: `${area.name}/${area.project ?? ""}/${area.path}`, title, path: area.path };
  if (!facts.available) {
    return { ...base, used: null, total: null, text: i18next.t("not found"), warning: facts.problem ?? i18next.t("{{path}} does not exist.", { path: area.path }) };
  }
  const quota = tightest(facts);
  const used = quota?.used_bytes ?? usedOf(facts);
  const total = quota === null ? facts.total_bytes : quota.limit_bytes;
  return {
    ...base,
    used,
    total,
    text: quota === null ? freeText(facts) : amountText(used, total),
    warning: warningOf(facts, quota, used, total),
  };
}

/** The quota with the highest usage share; null without a limit. */
function tightest(facts: AreaFacts): Quota | null {
  return [facts.user_quota, facts.project_quota]
    .filter((quota) => quota !== null)
    .filter((quota) => quota.used_bytes !== null && quota.limit_bytes !== null)
    .reduce<Quota | null>((fullest, quota) => (fullest !== null && bytesShare(fullest) >= bytesShare(quota) ? fullest : quota), null);
}

function bytesShare(quota: Quota): number {
  return share(quota.used_bytes, quota.limit_bytes);
}

function usedOf({ total_bytes: total, free_bytes: free }: AreaFacts): number | null {
  return total === null || free === null ? null : total - free;
}

function amountText(used: number | null, total: number | null): string {
  return used === null || total === null ? "" : i18next.t("{{used}} of {{total}}", { used: formatBytes(used), total: formatBytes(total) });
}

function freeText({ total_bytes: total, free_bytes: free }: AreaFacts): string {
  return total === null || free === null ? "" : i18next.t("{{free}} of {{total}} free", { free: formatBytes(free), total: formatBytes(total) });
}

function warningOf(facts: AreaFacts, quota: Quota | null, used: number | null, total: number | null): string | null {
  if (facts.problem !== null) return facts.problem;
  if (!facts.writable) return i18next.t("No write permission.");
  const full = share(used, total);
  if (full >= 1) return i18next.t("Storage is full. Writes fail.");
  if (full >= NEARLY_FULL) {
    return i18next.t("{{percent}} % full, {{left}} free.", { percent: Math.floor(full * 100), left: formatBytes((total ?? 0) - (used ?? 0)) });
  }
  const files = [quota, facts.user_quota, facts.project_quota].find((entry) => filesShare(entry) >= NEARLY_FULL);
  if (files) {
    return i18next.t("{{used}} of {{most}} files. The file limit is almost reached.", { used: files.used_files ?? 0, most: files.limit_files ?? 0 });
  }
  const degraded = facts.targets.filter((target) => !/^online\/good/i.test(target.state)).map((target) => target.name);
  return degraded.length === 0 ? null : i18next.t("Degraded storage targets: {{names}}.", { names: degraded.slice(0, 5).join(", ") });
}

function filesShare(quota: Quota | null): number {
  return quota === null ? 0 : share(quota.used_files, quota.limit_files);
}

function share(used: number | null, total: number | null): number {
  return used === null || total === null ? 0 : total === 0 ? 1 : used / total;
}
