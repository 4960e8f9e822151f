/** The values of settings as text. */
import i18next from "i18next";
import type { Setting } from "@/api/admin";
import { formatDuration } from "@/lib/time";
import { formatBytes } from "@/lib/units";

/** The value: an amount with its unit, other values as in the file; null if the setting has none. */
export function settingText({ value, unit }: Pick<Setting, "value" | "unit">): string | null {
  if (value === '"forever"') return i18next.t("forever");
  const amount = value === null ? NaN : Number(value);
  if (unit === null || Number.isNaN(amount)) return value;
  return unit === "bytes" ? formatBytes(amount) : formatDuration(amount);
}
