import { Anchor, Text, Title } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { ClusterTopology, TopologyNode } from "@/api/topology";
import { DataTable } from "@/components/DataTable";
import { DetailRow } from "@/components/DetailRow";
import { Drawer } from "@/components/Drawer";
import type { Column } from "@/components/table";
import { ToneBadge } from "@/components/ToneBadge";
import { nodeLook } from "./nodes";
import { pathOf, USAGES, usageOf } from "./topology";
import job from "@/components/Job.module.css";
import classes from "./Topology.module.css";

interface Props {
  topology: ClusterTopology;
  /** The node to show; undefined: none. */
  node: TopologyNode | undefined;
  onClose: () => void;
}

/** What a node consists of, and its place in the network. */
export function NodeDrawer({ topology, node, onClose }: Props) {
  const narrow = useMediaQuery("(max-width: 640px)");
  // The node stays during the closing transition of the drawer.
  const [shown, setShown] = useState(node);
  if (node !== undefined && node !== shown) setShown(node);
  return (
    <Drawer opened={node !== undefined} onClose={onClose} position={narrow ? "bottom" : "right"} size={narrow ? "80%" : 460} title={shown?.name}>
      {shown && <NodeParts topology={topology} node={shown} />}
    </Drawer>
  );
}

function NodeParts({ topology, node }: { topology: ClusterTopology; node: TopologyNode }) {
  const { t } = useTranslation();
  const { label, tone } = nodeLook(node.state);
  const path = pathOf(topology, node);
  return (
    <div className={classes.parts} data-testid="topology-details">
      <dl className={job.list}>
        <DetailRow name={t("State")}>
          <ToneBadge tone={tone} dot>
            {t(label)}
          </ToneBadge>
        </DetailRow>
        <DetailRow name={t("Usage")}>{t(USAGES[usageOf(node)].label)}</DetailRow>
        <DetailRow name="GPUs">{node.gpus > 0 ? t("{{free}} of {{total}} free", { free: node.free_gpus, total: node.gpus }) : t("none")}</DetailRow>
        <DetailRow name={t("Switches")}>{path.length > 0 ? path.join(" › ") : t("not in the topology")}</DetailRow>
        {node.source !== null && <DetailRow name={t("Source")}>{node.source}</DetailRow>}
      </dl>
      {node.numa_nodes === null ? (
        <Text size="sm" c="dimmed">
          {t("NUMA nodes, links of GPUs and network interfaces are not known yet. The first job on the node after its start reports them.")}
        </Text>
      ) : (
        <>
          <NumaTable node={node} />
          <GpuLinks links={node.gpu_links ?? []} />
        </>
      )}
      <Anchor component={Link} to={`/cluster/nodes/${encodeURIComponent(node.name)}`} size="sm">
        {t("Jobs and history of this node")}
      </Anchor>
    </div>
  );
}

/** CPUs, GPUs and network interfaces by NUMA node. */
function NumaTable({ node }: { node: TopologyNode }) {
  const { t } = useTranslation();
  const nics = node.nics ?? [];
  const known = new Set(node.numa_nodes?.map(({ index }) => index));
  const elsewhere = nics.filter(({ numa }) => numa === null || !known.has(numa));
  const columns: Column<NonNullable<TopologyNode["numa_nodes"]>[number]>[] = [
    { header: t("NUMA node"), label: t("NUMA node"), cell: ({ index }) => index },
    { header: "CPUs", cell: ({ cpus }) => cpus || "–" },
    { header: "GPUs", cell: ({ gpus }) => (gpus.length > 0 ? gpus.join(", ") : "–") },
    { header: t("Network interfaces"), cell: ({ index }) => namesOf(nics.filter(({ numa }) => numa === index)) },
  ];
  return (
    <section aria-labelledby="numa-title">
      <Title order={3} size="h6" mb={4} id="numa-title">
        {t("NUMA nodes")}
      </Title>
      <DataTable labelledBy="numa-title" columns={columns} rows={node.numa_nodes ?? []} rowKey={({ index }) => index} className={classes.small} />
      {elsewhere.length > 0 && (
        <Text size="sm" c="dimmed" mt={6}>
          {t("Network interfaces without a known NUMA node: {{names}}", { names: namesOf(elsewhere) })}
        </Text>
      )}
    </section>
  );
}

const namesOf = (devices: readonly { name: string }[]) => (devices.length > 0 ? devices.map(({ name }) => name).join(", ") : "–");

/** The kind of link between each two GPUs, in the words of `nvidia-smi topo -m`. */
function GpuLinks({ links }: { links: readonly (readonly (string | null)[])[] }) {
  const { t } = useTranslation();
  if (links.length < 2) return null;
  return (
    <section aria-labelledby="links-title">
      <Title order={3} size="h6" mb={4} id="links-title">
        {t("GPU links")}
      </Title>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
      <div className={classes.scroll} tabIndex={0} role="group" aria-labelledby="links-title">
        <table className={`${classes.links ?? ""} tabular`}>
          <thead>
            <tr>
              <td />
              {links.map((_, index) => (
                <th key={index} scope="col">
                  {t("GPU {{number}}", { number: index })}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {links.map((row, index) => (
              <tr key={index}>
                <th scope="row">{t("GPU {{number}}", { number: index })}</th>
                {row.map((kind, other) => (
                  <td key={other} data-kind={kind?.startsWith("NV") === true ? "nvlink" : undefined}>
                    {index === other ? "" : (kind ?? "–")}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Text size="xs" c="dimmed" mt={6}>
        {t("NV and a number: that many NVLinks. PIX, PXB, PHB, NODE, SYS: over PCIe, with growing distance.")}
      </Text>
    </section>
  );
}
