/** What the pages of the topology and of placements ask the API. */
import { queryOptions } from "@tanstack/react-query";
import { client, must } from "@/api/client";
import { keys } from "@/api/queries";
import type { components } from "@/api/schema";
import type { Answered } from "@/api/types";

type Schemas = components["schemas"];

export type ClusterTopology = Answered<Schemas["ClusterTopology"]>;
export type TopologySwitch = Answered<Schemas["TopologySwitch"]>;
export type TopologyNode = Answered<Schemas["TopologyNode"]>;
export type JobPlacement = Answered<Schemas["JobPlacement"]>;
export type PlacementCosts = Schemas["PlacementCosts"];
export type BoundRank = Answered<Schemas["BoundRank"]>;
export type PlacementPlan = Answered<Schemas["PlacementPlan"]>;
export type LeafUse = Schemas["LeafUse"];

export const topologyKeys = {
  /** Below the key of the nodes: what changes these changes the topology's page too. */
  cluster: [...keys.nodes, "topology"],
  job: (id: string) => ["job-placement", id],
} as const;

export const topologyQuery = queryOptions({
  queryKey: topologyKeys.cluster,
  queryFn: ({ signal }) => must(client.GET("/api/v1/cluster/topology", { signal })),
});

/** Refused with 409 before the job has nodes. */
export const placementQuery = (id: string) =>
  queryOptions({
    queryKey: topologyKeys.job(id),
    queryFn: ({ signal }) => must(client.GET("/api/v1/jobs/{job_id}/placement", { params: { path: { job_id: id } }, signal })),
  });
