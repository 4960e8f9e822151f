import { useTranslation } from "react-i18next";
import type { ProjectReport, UsageRow } from "@/api/projects";
import { formatNumber } from "@/lib/units";
import { monthLetters, monthName, usageBars } from "./projects";
import classes from "./Projects.module.css";

/** Colours that also differ in lightness, for print and colour-blind users. */
const COLOURS = [
  "var(--mantine-color-indigo-6)", "var(--mantine-color-moon-5)", "var(--mantine-color-indigo-3)",
  "var(--mantine-color-orange-5)", "var(--mantine-color-moon-8)", "var(--mantine-color-gray-5)",
];

/** Hours of each member by GPU type. */
export function UsageBars({ rows }: { rows: readonly UsageRow[] }) {
  const { t } = useTranslation();
  const { unit, types, bars } = usageBars(rows);
  const maximum = Math.max(...bars.map((bar) => bar.total), 0.0001);
  const title = unit === "gpu" ? t("GPU-hours") : t("CPU-hours");
  return (
    <>
      <ul className={classes.bars} aria-label={title}>
        {bars.map((bar) => (
          <li key={bar.user} className={classes.barRow} data-testid="usage-bar">
            <span className="truncate">{bar.user}</span>
            <span className={classes.barTrack} aria-hidden>
              {bar.parts.map((part, index) => (
                <span key={types[index]} className={classes.barPart} style={{ width: `${(part / maximum) * 100}%`, background: COLOURS[index % COLOURS.length] }} />
              ))}
            </span>
            <span className={`${classes.barValue ?? ""} tabular`}>{formatNumber(bar.total)}</span>
          </li>
        ))}
      </ul>
      <div className={classes.legend}>
        <strong>{title}</strong>
        {(types.length > 1 || types[0] !== "") &&
          types.map((type, index) => (
            <span key={type}>
              <span className={classes.swatch} style={{ background: COLOURS[index % COLOURS.length] }} aria-hidden />
              {type === "" ? t("other") : type}
            </span>
          ))}
      </div>
    </>
  );
}

/** The last 12 months up to the report's month, total of all members. */
export function YearBars({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const gpu = report.months.some((month) => month.gpu_hours > 0);
  const hours = (month: ProjectReport["months"][number]) => (gpu ? month.gpu_hours : month.cpu_hours);
  const peak = Math.max(...report.months.map(hours), 0);
  return (
    <>
      <ul className={classes.months} aria-label={gpu ? t("GPU-hours by month") : t("CPU-hours by month")}>
        {report.months.map((month) => (
          <li key={month.month} className={classes.monthBar} title={`${monthName(month.month)}: ${formatNumber(hours(month))}`}>
            <span className="visually-hidden">{`${monthName(month.month)}: ${formatNumber(hours(month))}`}</span>
            <span
              className={`${classes.monthFill ?? ""} ${month.month === report.month ? (classes.monthNow ?? "") : ""}`}
              style={{ height: `${(hours(month) / (peak || 1)) * 78}%` }}
            />
            <span aria-hidden>{monthLetters(month.month)}</span>
          </li>
        ))}
      </ul>
      <div className={classes.legend}>
        <strong>{gpu ? t("GPU-hours by month") : t("CPU-hours by month")}</strong>
        <span>{t("Peak: {{most}}", { most: formatNumber(peak) })}</span>
      </div>
    </>
  );
}
