import { Alert, Skeleton, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { RadioTower, TriangleAlert } from "lucide-react";
import { lazy, Suspense, useId, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { profileQuery } from "@/api/queries";
import type { Job, JobProfile } from "@/api/types";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { formatBytes, formatNumber, withUnit } from "@/lib/units";
import { extentOf, formatShare, formatSpan, historyOf, sharesOf, sizeOf, stragglerOf, verdictOf } from "./profile";
import type { Column } from "@/components/table";
import { TabSkeleton } from "@/components/TabSkeleton";
import classes from "./CommunicationPanel.module.css";

const UsageChart = lazy(() => import("@/components/UsageChart"));

/** The maximum number of ranks in the chart. */
const MAX_RANKS = 32;

const percentText = (value: number) => withUnit(Math.round(value), "%");

/** Communication metrics of a distributed job, during and after the run. */
export function CommunicationPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(profileQuery(job.id));
  if (query.isPending) return <TabSkeleton h={320} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  if (query.data === null) {
    return (
      <EmptyState icon={RadioTower} title={job.ended_at === null ? t("No data yet") : t("No data recorded")}>
        {job.ended_at === null
          ? t("Communication metrics appear after the first training steps of a program that uses aitne_train.")
          : t("Programs that use aitne_train record communication metrics. This job did not use it, or ended before its first steps.")}
      </EmptyState>
    );
  }
  return <Profile profile={query.data} />;
}

function Profile({ profile }: { profile: JobProfile }) {
  const { t } = useTranslation();
  const history = useMemo(() => historyOf(profile), [profile]);
  const straggler = stragglerOf(profile);
  return (
    <div className={classes.panel} data-testid="profile">
      <Stack gap={4}>
        <Text fw={600}>{verdictOf(profile)}</Text>
        <Text size="sm" c="dimmed" className="tabular">
          {extentOf(profile)}
          {profile.final ? "" : ` ${t("so far")}`}
        </Text>
      </Stack>
      {straggler !== null && (
        <Alert color="yellow" variant="light" icon={<TriangleAlert size={18} />} data-testid="profile-straggler">
          {straggler}
        </Alert>
      )}
      <dl className={classes.tiles}>
        <Tile name={t("Communication")} value={formatShare(profile.communicating)} />
        <Tile name={t("Overlapped with compute")} value={formatShare(profile.overlap)} />
        <Tile name={t("Exposed communication")} value={formatShare(profile.blocked)} />
        <Tile name={t("Step time")} value={profile.step_s === null ? "–" : formatSpan(profile.step_s)} />
      </dl>
      {history.times.length > 1 && (
        <div>
          <div className={classes.legend}>
            <LegendEntry colour="var(--mantine-color-moon-5)" text={t("Communication (% of step time)")} />
            <LegendEntry colour="repeating-linear-gradient(90deg, var(--mantine-color-indigo-5) 0 4px, transparent 4px 6px)" text={t("Exposed communication")} />
          </div>
          <Suspense fallback={<Skeleton h={132} />}>
            <UsageChart label={t("Communication share of step time")} series={history} limit={100} format={percentText} colour="moon" contrast />
          </Suspense>
        </div>
      )}
      <Messages profile={profile} />
      <Ranks profile={profile} />
    </div>
  );
}

function Tile({ name, value }: { name: string; value: string }) {
  return (
    <div className={classes.tile}>
      <dt>{name}</dt>
      <dd className="tabular">{value}</dd>
    </div>
  );
}

function LegendEntry({ colour, text }: { colour: string; text: string }) {
  return (
    <span>
      <span className={classes.key} style={{ background: colour }} aria-hidden />
      {text}
    </span>
  );
}

function Messages({ profile }: { profile: JobProfile }) {
  const { t } = useTranslation();
  const shares = sharesOf(profile.table);
  const rows = profile.table.map((row, index) => ({ ...row, share: shares[index] ?? 0 }));
  const title = useId();
  const columns: Column<(typeof rows)[number]>[] = [
    { header: t("Operation"), label: t("Operation"), className: classes.operation, cell: ({ op }) => op },
    { header: t("Size"), nowrap: true, className: classes.size, cell: sizeOf },
    { header: t("Count"), align: "right", cell: ({ count }) => formatNumber(count) },
    { header: t("Data"), align: "right", cell: ({ bytes }) => formatBytes(bytes) },
    { header: t("Time"), align: "right", cell: ({ time_s }) => formatSpan(time_s) },
    {
      header: t("Share of time"),
      className: classes.shareCell,
      cell: ({ share }) => (
        <div className={classes.share}>
          <span className={classes.bar} aria-hidden>
            <span style={{ width: `${share * 100}%` }} />
          </span>
          {formatShare(share)}
        </div>
      ),
    },
    { header: t("Bus bandwidth"), align: "right", cell: ({ bus_bytes_per_s }) => `${formatBytes(bus_bytes_per_s)}/s` },
  ];
  return (
    <div className={classes.messages}>
      <Title order={2} size="h6" mb={2} id={title} className={classes.caption}>
        {t("By message size")}
      </Title>
      <DataTable labelledBy={title} columns={columns} rows={rows} rowKey={({ op, from_bytes }) => `${op} ${from_bytes}`} />
    </div>
  );
}

function Ranks({ profile }: { profile: JobProfile }) {
  const { t } = useTranslation();
  const ranks = profile.ranks.filter((rank) => rank.own_s !== null && rank.step_s !== null).slice(0, MAX_RANKS);
  const title = useId();
  const longest = Math.max(0, ...ranks.map((rank) => rank.step_s ?? 0));
  if (ranks.length < 2 || longest === 0) return null;
  return (
    <div>
      <Title order={2} size="h6" mb={6} id={title}>
        {t("By rank")}
      </Title>
      <div className={classes.legend} style={{ marginBottom: 8 }}>
        <LegendEntry colour="var(--mantine-color-indigo-5)" text={t("Compute time per step")} />
        <LegendEntry colour="var(--exposed)" text={t("Exposed communication")} />
      </div>
      <ul className={`${classes.ranks ?? ""} tabular`} aria-labelledby={title}>
        {ranks.map((rank) => {
          const compute = rank.own_s ?? 0;
          const exposed = Math.max(0, (rank.step_s ?? 0) - compute);
          const isStraggler = rank.rank === profile.straggler?.rank;
          return (
            <li key={rank.rank} className={classes.rank}>
              <span>
                {t("Rank {{rank}}", { rank: rank.rank })}{" "}
                <Text span size="xs" c="dimmed">{t("node {{node}}", { node: rank.node })}</Text>
              </span>
              <span
                className={classes.split}
                role="img"
                aria-label={t(isStraggler ? "compute {{own}}, exposed communication {{waits}}, straggler" : "compute {{own}}, exposed communication {{waits}}", {
                  own: formatSpan(compute),
                  waits: formatSpan(exposed),
                })}
              >
                <span className={isStraggler ? classes.straggler : classes.compute} style={{ width: `${(100 * compute) / longest}%` }} />
                <span className={classes.exposed} style={{ width: `${(100 * exposed) / longest}%` }} />
              </span>
              <span className={classes.right} aria-hidden>
                {formatSpan(compute)}
              </span>
            </li>
          );
        })}
      </ul>
      {profile.size > ranks.length && (
        <Text size="xs" c="dimmed" mt={8}>
          {t("Showing {{drawn}} of {{size}} ranks.", { drawn: ranks.length, size: profile.size })}
        </Text>
      )}
    </div>
  );
}
