import { useTranslation } from "react-i18next";
import type { ProjectReport } from "@/api/projects";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { formatDuration } from "@/lib/time";
import { formatNumber } from "@/lib/units";

export function UsageTable({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const types = Object.keys(report.total.gpu_hours_by_type).sort();
  const rows = [...report.rows].sort((a, b) => b.gpu_hours - a.gpu_hours || b.cpu_hours - a.cpu_hours);
  const columns: Column<ProjectReport["total"]>[] = [
    { header: t("User"), cell: ({ user }) => <strong>{user === "" ? t("Total") : user}</strong> },
    { header: t("Jobs"), align: "right", cell: ({ jobs }) => formatNumber(jobs) },
    { header: t("CPU-hours"), align: "right", cell: ({ cpu_hours }) => formatNumber(cpu_hours) },
    { header: t("GPU-hours"), align: "right", cell: ({ gpu_hours }) => formatNumber(gpu_hours) },
    ...types.map((type): Column<ProjectReport["total"]> => ({ key: `type ${type}`, header: type, align: "right", cell: (row) => formatNumber(row.gpu_hours_by_type[type] ?? 0) })),
  ];
  return <DataTable columns={columns} rows={[...rows, report.total]} rowKey={({ user }) => user} rowProps={({ user }) => ({ "data-testid": user === "" ? "usage-total" : "usage-row" })} />;
}

export function WaitTable({ report }: { report: ProjectReport }) {
  const { t } = useTranslation();
  const columns: Column<ProjectReport["waits"][number]>[] = [
    { header: t("User"), cell: ({ user }) => <strong>{user}</strong> },
    { header: t("Started"), align: "right", cell: ({ jobs }) => formatNumber(jobs) },
    { header: t("Median"), align: "right", cell: ({ median_s }) => formatDuration(median_s) },
    { header: t("p90"), align: "right", cell: ({ p90_s }) => formatDuration(p90_s) },
    { header: t("Maximum"), align: "right", cell: ({ max_s }) => formatDuration(max_s) },
  ];
  return <DataTable columns={columns} rows={report.waits} rowKey={({ user }) => user} rowTestId="wait-row" />;
}
