/** What the pages of the topology and of placements ask the API. */
import { queryOptions } from "@tanstack/react-query";
import { getRaw } from "@/api/client";
import { keys } from "@/api/queries";
import type { ClusterNode, Plan } from "@/api/types";

/** A switch, or a block of nodes. */
export interface TopologySwitch {
  name: string;
  /** Null for the root. */
  parent: string | null;
  kind: string;
  source: string;
}

export interface TopologyNode {
  name: string;
  /** Leaf switch; null: unknown. */
  switch: string | null;
  source: string | null;
  state: ClusterNode["state"];
  gpus: number;
  free_gpus: number;
  /** Whether a job of the user runs there. */
  mine: boolean;
  used: boolean;
  /** These three are null as long as no source describes the node. */
  numa_nodes: { index: number; cpus: string; gpus: number[] }[] | null;
  gpu_links: (string | null)[][] | null;
  nics: { name: string; numa: number | null }[] | null;
}

export interface TopologySource {
  name: string;
  origin: string;
  read_at: string;
  problem: string | null;
}

export interface ClusterTopology {
  /** Empty: no source describes the network. */
  switches: TopologySwitch[];
  nodes: TopologyNode[];
  sources: TopologySource[];
  unknown_nodes: string[];
}

/** A cost of the given, the chosen and the best known order. */
export interface OrderCosts {
  given: number;
  chosen: number;
  best: number;
}

export interface RankBinding {
  rank: number;
  node: string;
  cores: string | null;
  numa: number | null;
  gpu: number | null;
  nic: string | null;
}

/** The nodes of a job in the order in which ranks are numbered, on the part of the network that connects them. */
export interface JobPlacement {
  given: string[];
  order: string[];
  /** These two are null where the topology is not known. */
  crossings: OrderCosts | null;
  busiest_uplink: OrderCosts | null;
  switches: { name: string; parent: string | null }[];
  /** The leaf switch of each node; an unknown node has none. */
  leaves: Record<string, string>;
  bindings: RankBinding[];
  reason: string;
}

export const topologyKeys = {
  /** Below the key of the nodes: what changes these changes the topology's page too. */
  cluster: [...keys.nodes, "topology"],
  job: (id: string) => ["job-placement", id],
} as const;

export const topologyQuery = queryOptions({
  queryKey: topologyKeys.cluster,
  queryFn: async ({ signal }) => (await (await getRaw("/cluster/topology", signal)).json()) as ClusterTopology,
});

/** Refused with 409 before the job has nodes. */
export const placementQuery = (id: string) =>
  queryOptions({
    queryKey: topologyKeys.job(id),
    queryFn: async ({ signal }) => (await (await getRaw(`/jobs/${id}/placement`, signal)).json()) as JobPlacement,
  });

/** Nodes of a job on one leaf. */
export interface LeafUse {
  name: string;
  nodes: number;
}

/** A cost of the order in which the scheduler gives the nodes, and of the order of the job; null: known on the node only. */
interface CostPair {
  given: number;
  chosen: number | null;
}

/** Where a job would run if it started now. */
export interface PlannedPlacement {
  /** Empty: too few nodes are free. */
  nodes: string[];
  leaves: LeafUse[];
  /** Empty: unknown. */
  order: string[];
  crossings: CostPair | null;
  busiest_uplink: CostPair | null;
  score: number | null;
  max_leaves: number | null;
  /** Null: without a limit. */
  max_leaves_wait_s: number | null;
  reason: string;
  alternatives: { leaves: LeafUse[]; wait_s: number; score: number }[];
  changes: string[];
}

/** The placement of a plan; null on one node, and where the topology is not known. */
export function plannedPlacement(plan: Plan): PlannedPlacement | null {
  return (plan as Plan & { placement?: PlannedPlacement | null }).placement ?? null;
}
