import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CalendarClock } from "lucide-react";
import { useTranslation } from "react-i18next";
import { maintenanceQuery } from "@/api/admin";
import { partitionsQuery } from "@/api/queries";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { NodeLinks } from "@/components/NodeLinks";
import { PageError } from "@/components/PageError";
import type { Column } from "@/components/table";
import { useSlowNow } from "@/hooks/use-now";
import { locale } from "@/i18n/locale";
import { formatMoment, formatPeriod } from "@/lib/time";
import { type Booking, bookings, calendarDays, placeOf } from "./queues";
import table from "@/components/table.module.css";
import panel from "./LoadPanel.module.css";
import classes from "./ReservationCalendar.module.css";

/** Reservations of the scheduler and the platform's maintenance in the next two weeks. */
export function ReservationCalendar() {
  const { t } = useTranslation();
  const now = useSlowNow();
  const partitions = useQuery(partitionsQuery);
  const maintenance = useQuery(maintenanceQuery);
  const query = partitions.data === undefined ? partitions : maintenance;
  return (
    <section className={`card ${panel.panel ?? ""}`} aria-labelledby="calendar-title" data-testid="reservations">
      <div className={panel.head}>
        <h2 id="calendar-title">{t("Reservations and maintenance")}</h2>
      </div>
      {query.isPending ? (
        <Skeleton h={96} />
      ) : partitions.data === undefined || maintenance.data === undefined ? (
        <PageError compact error={query.error} onRetry={() => query.refetch()} />
      ) : (
        <Calendar items={bookings(partitions.data.reservations, maintenance.data, now)} now={now} />
      )}
    </section>
  );
}

function Calendar({ items, now }: { items: readonly Booking[]; now: Date }) {
  const { t } = useTranslation();
  if (items.length === 0) {
    return (
      <EmptyState icon={CalendarClock} title={t("No reservations")}>
        {t("Reservations of the scheduler and maintenance of the platform appear here, for example after scontrol create reservation.")}
      </EmptyState>
    );
  }
  const days = calendarDays(now);
  const first = days[0] ?? now;
  const passed = (now.getTime() - first.getTime()) / ((days.at(-1) ?? now).getTime() - first.getTime());
  const columns: Column<Booking>[] = [
    {
      header: t("Name"),
      className: classes.name,
      cell: (booking) => (
        <>
          {booking.kind === "maintenance" ? (
            <Link to="/admin/announcements" className={table.plainLink}>
              {t("Maintenance")}
            </Link>
          ) : (
            <strong>{booking.name}</strong>
          )}
          <span className={classes.period}>{periodOf(booking, t("no end"))}</span>
          {booking.kind === "maintenance" && booking.name !== "" && <span className={classes.period}>{booking.name}</span>}
        </>
      ),
    },
    {
      header: t("Calendar"),
      heading: <Days days={days} />,
      label: null,
      className: classes.line,
      cell: (booking) => <Bar booking={booking} days={days} passed={passed} />,
    },
    {
      header: t("Nodes"),
      cell: ({ kind, nodes }) =>
        kind === "maintenance" ? (
          t("all")
        ) : (
          <span>
            <NodeLinks nodes={nodes} short />
          </span>
        ),
    },
    { header: t("For"), cell: ({ holders }) => (holders.length === 0 ? "–" : holders.join(", ")) },
  ];
  return <DataTable columns={columns} rows={items} rowKey={({ kind, name }) => `${kind} ${name}`} rowTestId="booking" className={classes.wide} />;
}

/** The days above the bars. */
function Days({ days }: { days: readonly Date[] }) {
  const { t } = useTranslation();
  return (
    <>
      <span className="visually-hidden">{t("Calendar")}</span>
      <span className={classes.days} aria-hidden>
        {days.slice(0, -1).map((day) => (
          <span key={day.getTime()} data-weekend={day.getDay() % 6 === 0 || undefined}>
            {day.toLocaleDateString(locale(), { day: "numeric" })}
            <small>{day.toLocaleDateString(locale(), { weekday: "narrow" })}</small>
          </span>
        ))}
      </span>
    </>
  );
}

function periodOf(booking: Booking, endless: string): string {
  if (booking.starts === null) return "";
  if (booking.ends === null) return `${formatMoment(booking.starts)} – ${endless}`;
  return formatPeriod(booking.starts, booking.ends);
}

function Bar({ booking, days, passed }: { booking: Booking; days: readonly Date[]; passed: number }) {
  const { t } = useTranslation();
  const place = placeOf(booking, days);
  return (
    <div className={classes.track} style={{ backgroundSize: `${100 / (days.length - 1)}% 100%` }}>
      {place === null ? (
        <span className={classes.later}>{t("later")}</span>
      ) : (
        <span className={classes.bar} data-kind={booking.kind} style={{ left: `${100 * place.start}%`, width: `${100 * place.length}%` }} aria-hidden />
      )}
      <span className={classes.now} style={{ left: `${100 * passed}%` }} aria-hidden />
    </div>
  );
}
