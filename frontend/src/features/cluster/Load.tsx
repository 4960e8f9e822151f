import { Group } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { PageTitle } from "@/components/PageTitle";
import { HeatMap } from "./HeatMap";
import { LoadSection, PartitionSelect, PeriodControl } from "./LoadPanel";
import { QueuePanel } from "./QueuePanel";
import { ReservationCalendar } from "./ReservationCalendar";

/** What administrators look at every day: load, queues, nodes and reservations. */
export function AdminLoadPage() {
  const { t } = useTranslation();
  const { period = "day", partition } = useSearch({ from: "/shell/admin/load" });
  const navigate = useNavigate({ from: "/admin/load" });
  return (
    <>
      <PageTitle title={t("Load and queues")}>
        <Group gap={8}>
          <PartitionSelect partition={partition} onChange={(name) => void navigate({ search: (old) => ({ ...old, partition: name }), replace: true })} />
          <PeriodControl period={period} onChange={(next) => void navigate({ search: (old) => ({ ...old, period: next === "day" ? undefined : next }), replace: true })} />
        </Group>
      </PageTitle>
      <LoadSection period={period} partition={partition} jobs="/admin/jobs" title={t("Load over time")} />
      <QueuePanel period={period} partition={partition} />
      <HeatMap partition={partition} />
      <ReservationCalendar />
    </>
  );
}
