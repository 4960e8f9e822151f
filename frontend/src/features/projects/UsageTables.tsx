import { useTranslation } from "react-i18next";
import type { ProjectReport } from "@/api/projects";
import tableClasses from "@/components/table.module.css";
import { formatDuration } from "@/lib/time";
import { formatNumber } from "@/lib/units";

export function UsageTable({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const types = Object.keys(report.total.gpu_hours_by_type).sort();
  const rows = [...report.rows].sort((a, b) => b.gpu_hours - a.gpu_hours || b.cpu_hours - a.cpu_hours);
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table}>
        <thead>
          <tr>
            <th scope="col">{t("User")}</th>
            <th scope="col" className={tableClasses.num}>{t("Jobs")}</th>
            <th scope="col" className={tableClasses.num}>{t("CPU-hours")}</th>
            <th scope="col" className={tableClasses.num}>{t("GPU-hours")}</th>
            {types.map((type) => (
              <th scope="col" key={type} className={tableClasses.num}>{type}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...rows, report.total].map((row) => (
            <tr key={row.user} data-testid={row.user === "" ? "usage-total" : "usage-row"}>
              <td>
                <strong>{row.user === "" ? t("Total") : row.user}</strong>
              </td>
              <td data-label={t("Jobs")} className={tableClasses.num}>{formatNumber(row.jobs)}</td>
              <td data-label={t("CPU-hours")} className={tableClasses.num}>{formatNumber(row.cpu_hours)}</td>
              <td data-label={t("GPU-hours")} className={tableClasses.num}>{formatNumber(row.gpu_hours)}</td>
              {types.map((type) => (
                <td key={type} data-label={type} className={tableClasses.num}>{formatNumber(row.gpu_hours_by_type[type] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function WaitTable({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table}>
        <thead>
          <tr>
            <th scope="col">{t("User")}</th>
            <th scope="col" className={tableClasses.num}>{t("Started")}</th>
            <th scope="col" className={tableClasses.num}>{t("Median")}</th>
            <th scope="col" className={tableClasses.num}>{t("p90")}</th>
            <th scope="col" className={tableClasses.num}>{t("Maximum")}</th>
          </tr>
        </thead>
        <tbody>
          {report.waits.map((wait) => (
            <tr key={wait.user} data-testid="wait-row">
              <td>
                <strong>{wait.user}</strong>
              </td>
              <td data-label={t("Started")} className={tableClasses.num}>{formatNumber(wait.jobs)}</td>
              <td data-label={t("Median")} className={tableClasses.num}>{formatDuration(wait.median_s)}</td>
              <td data-label={t("p90")} className={tableClasses.num}>{formatDuration(wait.p90_s)}</td>
              <td data-label={t("Maximum")} className={tableClasses.num}>{formatDuration(wait.max_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
