import { Alert, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useInfiniteQuery, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Info, ListTree, TriangleAlert } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { nodeHistoryQuery } from "@/api/admin";
import { meQuery, nodesQuery } from "@/api/queries";
import type { ClusterNode, Me } from "@/api/types";
import { CapacityRow } from "@/components/Capacity";
import { DetailRow } from "@/components/DetailRow";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { BackLink, PageHead } from "@/components/PageHead";
import { PageLoading } from "@/components/PageLoading";
import { RelativeTime } from "@/components/Time";
import { columnsOf } from "@/features/jobs/table/job-columns";
import { JobList } from "@/features/jobs/table/JobList";
import type { JobFilters } from "@/lib/job-filters";
import { formatBytes } from "@/lib/units";
import { NodeActions } from "./NodeActions";
import { NodeHistory } from "./NodeHistory";
import { CLOSED } from "./nodes";
import { NodeStateBadge } from "./NodeStateBadge";
import classes from "@/components/Job.module.css";

/** A node: its state, its resources, the jobs on it and its history. */
export function NodePage() {
  const { t } = useTranslation();
  const { name } = useParams({ from: "/shell/cluster/nodes/$name" });
  const { data: me } = useSuspenseQuery(meQuery);
  const query = useQuery(nodesQuery);
  useDocumentTitle(`${name} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  const node = query.data.items.find((entry) => entry.name === name);
  return (
    <>
      <PageHead
        back={<BackLink to="/cluster">{t("Cluster")}</BackLink>}
        title={name}
        badges={node && <NodeStateBadge node={node} large />}
        sub={node && [...node.partitions, ...node.features.map((feature) => `#${feature}`)].join(" · ")}
      >
        {node && me.user.role === "admin" && me.platform.can_drain && <NodeActions node={node} />}
      </PageHead>
      {node === undefined ? (
        <Alert color="gray" icon={<Info size={18} />} mb="md">
          {t("The scheduler reports no node of this name now. Its history is below.")}
        </Alert>
      ) : (
        <StateAlert node={node} />
      )}
      <div className={classes.grid}>
        <Jobs name={name} me={me} />
        <aside className={classes.aside}>
          {node && <Resources node={node} />}
          <section className={`card ${classes.panel ?? ""}`} aria-labelledby="history-title">
            <Title order={2} size="h5" mb="sm" id="history-title">
              {t("History")}
            </Title>
            <NodeHistory name={name} />
          </section>
        </aside>
      </div>
    </>
  );
}

/** Why the node accepts no jobs, and since when. */
function StateAlert({ node }: { node: ClusterNode }) {
  const { t } = useTranslation();
  const closed = CLOSED.has(node.state);
  const events = useInfiniteQuery({ ...nodeHistoryQuery(node.name), enabled: closed }).data?.pages[0]?.items;
  const since = events?.find((event) => event.event === node.state);
  if (!closed && node.reason === null) return null;
  return (
    <Alert color={node.state === "down" ? "red" : "orange"} icon={<TriangleAlert size={18} />} mb="md" data-testid="node-reason">
      {closed ? t("This node accepts no new jobs.") : null} {node.reason !== null && t("Reason: {{reason}}", { reason: node.reason })}
      {since && (
        <>
          {" "}
          <Text span size="sm" c="dimmed">
            <RelativeTime at={since.time} />
          </Text>
        </>
      )}
    </Alert>
  );
}

function Resources({ node }: { node: ClusterNode }) {
  const { t } = useTranslation();
  const rows = [
    ...node.gpus.map((gpu) => ({ title: gpu.type ?? t("GPUs"), used: gpu.used, total: gpu.total, free: t("{{free}} of {{total}} free", { free: gpu.total - gpu.used, total: gpu.total }) })),
    { title: t("CPUs"), used: node.cpu_used, total: node.cpu_total, free: t("{{free}} of {{total}} free", { free: node.cpu_total - node.cpu_used, total: node.cpu_total }) },
    {
      title: t("Memory"),
      used: node.memory_used_bytes,
      total: node.memory_total_bytes,
      free: t("{{free}} of {{total}} free", { free: formatBytes(node.memory_total_bytes - node.memory_used_bytes), total: formatBytes(node.memory_total_bytes) }),
    },
    ...node.gres.map((gres) => ({ title: gres.name, used: gres.used, total: gres.total, free: t("{{free}} of {{total}} free", { free: gres.total - gres.used, total: gres.total }) })),
  ];
  const power = [
    ...(node.power_w === null ? [] : [t("{{watts}} W (Slurm)", { watts: node.power_w })]),
    ...(node.cpu_power_w === null ? [] : [t("{{watts}} W, CPUs and memory (RAPL)", { watts: node.cpu_power_w })]),
  ];
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="resources-title" data-testid="node-resources">
      <Title order={2} size="h5" mb="sm" id="resources-title">
        {t("Resources")}
      </Title>
      <div style={{ display: "grid", gap: 14, marginBottom: 16 }}>
        {rows.map((row) => (
          <CapacityRow key={row.title} {...row} />
        ))}
      </div>
      <dl className={classes.list}>
        {node.scheduler_state !== null && <DetailRow name={t("Scheduler state")}>{node.scheduler_state}</DetailRow>}
        <DetailRow name={t("Power")}>{power.join(" · ") || t("not measured")}</DetailRow>
        {node.address !== null && <DetailRow name={t("Address")}>{node.address}</DetailRow>}
        <DetailRow name={t("Updated")}>
          <RelativeTime at={node.seen_at} />
        </DetailRow>
      </dl>
    </section>
  );
}

const COLUMNS = columnsOf(["state", "owner", "resources", "started"], true);

function Jobs({ name, me }: { name: string; me: Me }) {
  const { t } = useTranslation();
  const [order, setOrder] = useState<Pick<JobFilters, "sort" | "order">>({ sort: "started", order: "desc" });
  const ofPage = useMemo(() => ({ node: name, state: "running" as const, all: true }), [name]);
  const filters = useMemo(() => ({ ...order, ...ofPage }), [order, ofPage]);
  return (
    <section aria-labelledby="jobs-title" style={{ minWidth: 0 }}>
      <Title order={2} size="h5" id="jobs-title">
        {t("Jobs on this node")}
      </Title>
      <JobList
        filters={filters}
        ofPage={ofPage}
        columns={COLUMNS}
        onChange={(change) => setOrder((old) => ({ ...old, ...change }))}
        empty={() => (
          <EmptyState icon={ListTree} title={t("No running jobs")}>
            {me.user.role === "admin" ? t("Jobs of all users on this node are listed here.") : t("Your jobs and those of your projects on this node are listed here.")}
          </EmptyState>
        )}
      />
    </section>
  );
}
