import { Anchor, Group, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { capacityQuery, nodesQuery } from "@/api/queries";
import type { Capacity, GpuCapacity } from "@/api/types";
import { UsageBar } from "@/components/Capacity";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import { useSlowNow } from "@/hooks/use-now";
import { formatBytes } from "@/lib/units";
import { capacityOf } from "./capacity";
import { freeGpusText, HORIZON_H, stepPath } from "./free-gpus";
import dashboard from "@/components/Dashboard.module.css";
import classes from "@/components/GpuPanel.module.css";

/** Free GPUs by type, now and in the forecast. */
export function GpuPanel() {
  const { t } = useTranslation();
  const capacity = useQuery(capacityQuery);
  return (
    <section className={`card ${dashboard.panel ?? ""}`} aria-labelledby="cluster-title" data-testid="gpu-panel">
      <Group justify="space-between" mb="sm">
        <Title order={2} size="h5" id="cluster-title">
          {t("Cluster")}
        </Title>
        <Anchor component={Link} to="/cluster" size="sm">
          {t("Nodes")}
        </Anchor>
      </Group>
      {capacity.isPending && <PanelSkeleton rows={3} />}
      {capacity.isError && !capacity.data && <PageError compact error={capacity.error} onRetry={() => capacity.refetch()} />}
      {capacity.data && <Gpus capacity={capacity.data} />}
      <NodeSummary />
    </section>
  );
}

function Gpus({ capacity }: { capacity: Capacity }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  return (
    <Stack gap="lg" mb="md">
      {capacity.gpus.map((gpu) => (
        <Gpu key={gpu.type ?? ""} gpu={gpu} now={now} />
      ))}
      {capacity.gpus.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("No GPU nodes")}
        </Text>
      )}
      {capacity.stale && capacity.as_of !== null && (
        <Text size="xs" c="dimmed">
          {t("Updated")} <RelativeTime at={capacity.as_of} />
        </Text>
      )}
    </Stack>
  );
}

const WIDTH = 280;
const HEIGHT = 34;

function Gpu({ gpu, now }: { gpu: GpuCapacity; now: Date }) {
  const { t } = useTranslation();
  const title = gpu.type ?? t("GPUs");
  const path = stepPath(gpu, now, WIDTH, HEIGHT);
  const changes = gpu.forecast.length > 1;
  return (
    <div>
      <div className={classes.label}>
        <strong>{title}</strong>
        <span className="tabular">{t("{{free}} of {{total}} free", { free: gpu.free, total: gpu.total })}</span>
      </div>
      <UsageBar used={gpu.total - gpu.free} total={gpu.total} label={t("{{title}} in use", { title })} />
      <div className={classes.words}>{freeGpusText(gpu, now)}</div>
      {changes && (
        <figure className={classes.chart}>
          <div className={classes.words}>{t("Free GPUs in the next {{count}} hours", { count: HORIZON_H })}</div>
          <div className={classes.plot}>
            <div className={`${classes.scale ?? ""} tabular`} aria-hidden>
              <span>{gpu.total}</span>
              <span>0</span>
            </div>
            <svg viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} preserveAspectRatio="none" role="img" aria-label={t("Free {{title}} in the next {{count}} hours, based on time limits of running jobs", { title, count: HORIZON_H })}>
              <path d={`${path} V${HEIGHT} H0 Z`} className={classes.area} />
              <path d={path} className={classes.line} vectorEffect="non-scaling-stroke" />
            </svg>
          </div>
          <figcaption className={classes.axis}>
            <span>{t("now")}</span>
            <span>{t("in {{time}}", { time: `${HORIZON_H / 2} h` })}</span>
            <span>{t("in {{time}}", { time: `${HORIZON_H} h` })}</span>
          </figcaption>
        </figure>
      )}
    </div>
  );
}

/** Free CPUs, free memory and available nodes in one line. */
function NodeSummary() {
  const { t } = useTranslation();
  const nodes = useQuery(nodesQuery).data;
  if (nodes === undefined) return null;
  const { cpu, memory, nodes: count } = capacityOf(nodes.items);
  if (count.total === 0) {
    return (
      <Text size="sm" c="dimmed">
        {t("No nodes reported yet. Submitted jobs stay in the queue.")}
      </Text>
    );
  }
  return (
    <Text size="xs" c="dimmed" className="tabular">
      {t("{{free}} of {{total}} CPUs free", { free: cpu.total - cpu.used, total: cpu.total })}
      {" · "}
      {t("{{free}} of {{total}} memory free", { free: formatBytes(memory.total - memory.used), total: formatBytes(memory.total) })}
      {" · "}
      {count.up === count.total ? t("{{count}} nodes", { count: count.total }) : t("{{up}} of {{count}} nodes available", { up: count.up, count: count.total })}
    </Text>
  );
}
