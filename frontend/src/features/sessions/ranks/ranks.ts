/** Rank groups of a session: which are shown, what they cost, and the form that starts one. */
import i18next from "i18next";
import type { RanksFile } from "@/api/ranks";
import type { ClusterNode, Job } from "@/api/types";
import { isFailure, isTerminal } from "@/lib/states";
import { durationWords, HOUR, MINUTE, parseDuration } from "@/lib/time";
import { GIB, memoryText, parseMemory } from "@/lib/units";

/** Time for which a rank group that failed is shown. */
const FAILED_SHOWN_S = HOUR;
const MOST_DIVISORS = 6;

/** Groups that have not ended, oldest first, after the last one if it failed a short time ago. */
export function shownGroups(groups: readonly Job[], now: Date): Job[] {
  const byTime = groups.toSorted((a, b) => a.created_at.localeCompare(b.created_at));
  const last = byTime.at(-1);
  const hasFailed =
    last !== undefined && isFailure(last.state) && last.ended_at !== null && now.getTime() - Date.parse(last.ended_at) < FAILED_SHOWN_S * 1_000;
  return [...(hasFailed ? [last] : []), ...byTime.filter((group) => !isTerminal(group.state))];
}

type Shape = Pick<Job, "distributed" | "resources">;

/** Number of ranks in total. */
export function ranksOf({ distributed, resources }: Shape): number {
  return distributed === null ? 0 : distributed.ranks_per_node * resources.nodes;
}

/** "4 ranks · 2 nodes · 4 × a100". */
export function describeGroup(group: Shape): string {
  const { nodes, gpu } = group.resources;
  const gpus = nodes * gpu.count;
  return [
    i18next.t("{{count}} ranks", { count: ranksOf(group) }),
    i18next.t("{{count}} nodes", { count: nodes }),
    ...(gpus > 0 ? [gpu.type === null ? i18next.t("{{count}} GPUs", { count: gpus }) : `${gpus} × ${gpu.type}`] : []),
  ].join(" · ");
}

/** What an hour of the group costs its project: GPU-hours where it has GPUs, else CPU-hours. */
export function costPerHour({ resources }: Pick<Job, "resources">): string {
  const gpus = resources.nodes * resources.gpu.count;
  return gpus > 0
    ? i18next.t("Uses {{count}} GPU-hours an hour", { count: gpus })
    : i18next.t("Uses {{count}} CPU-hours an hour", { count: resources.nodes * resources.cpu });
}

/** Whether a release ends running ranks and what they have in memory, rather than a pending request. */
export function losesState({ state }: Pick<Job, "state">): boolean {
  return !["PENDING_SUBMIT", "SUBMITTING", "UNCERTAIN", "QUEUED"].includes(state);
}

/** Values of the form; text fields have what is typed. */
export interface RanksValues {
  ranks: number;
  nodes: number;
  /** Type of the GPU of each rank; `any`: of whatever type; null: ranks without a GPU. */
  gpu: string | null;
  /** CPUs and memory of each rank. */
  cpu: number;
  memory: string;
  duration: string;
  /** Empty: never released for being idle. */
  idle: string;
}

export const ANY_GPU = "any";

/** The most that the form proposes for each rank. */
const PROPOSED = { cpu: 4, memoryBytes: 16 * GIB };

/** One rank for each GPU that is free on one node, with its share of the node; without GPUs two small ranks. */
export function initialRanks(nodes: readonly ClusterNode[]): RanksValues {
  const best = gpuTypes(nodes).toSorted((a, b) => b.free - a.free)[0];
  const values = { nodes: 1, duration: durationWords(2 * HOUR), idle: durationWords(15 * MINUTE) };
  if (best === undefined) return { ...values, ranks: 2, gpu: null, cpu: 1, memory: memoryText(2 * GIB) };
  const ranks = Math.max(1, Math.min(best.perNode, best.free));
  const hosts = nodes.filter((node) => node.gpus.some(({ type }) => type === best.type));
  const share = (pick: (node: ClusterNode) => number) => Math.max(1, Math.floor(Math.min(...hosts.map(pick)) / best.perNode));
  return {
    ...values,
    ranks,
    gpu: best.type ?? ANY_GPU,
    cpu: Math.min(PROPOSED.cpu, share((node) => node.cpu_total)),
    memory: memoryText(Math.min(PROPOSED.memoryBytes, share((node) => node.memory_total_bytes / GIB) * GIB)),
  };
}

export interface GpuType {
  /** Null: GPUs of which the scheduler knows no type. */
  type: string | null;
  free: number;
  total: number;
  /** The most that a node has. */
  perNode: number;
}

export function gpuTypes(nodes: readonly ClusterNode[]): GpuType[] {
  const types = new Map<string | null, GpuType>();
  for (const { type, used, total } of nodes.flatMap((node) => node.gpus)) {
    const known = types.get(type) ?? { type, free: 0, total: 0, perNode: 0 };
    types.set(type, { type, free: known.free + total - used, total: known.total + total, perNode: Math.max(known.perNode, total) });
  }
  return [...types.values()].sort((a, b) => (a.type ?? "").localeCompare(b.type ?? ""));
}

/** What is wrong with the values before the platform sees them. */
export function ranksProblems(values: RanksValues): Partial<Record<keyof RanksValues, string>> {
  const problems: Partial<Record<keyof RanksValues, string>> = {};
  if (values.ranks % values.nodes !== 0) {
    problems.nodes = i18next.t("{{ranks}} ranks cannot be divided by {{nodes}} nodes. Possible: {{divisors}}.", {
      ranks: values.ranks,
      nodes: values.nodes,
      divisors: divisorsNear(values.ranks, values.nodes).join(", "),
    });
  }
  const hint = () => i18next.t("Enter a duration, such as 30m, 4h or 1d12h.");
  if (parseMemory(values.memory) === null) problems.memory = i18next.t("Enter an amount, such as 512M, 16G or 1.5T.");
  if (!isDuration(values.duration)) problems.duration = hint();
  if (values.idle.trim() !== "" && !isDuration(values.idle)) problems.idle = hint();
  return problems;
}

function isDuration(text: string): boolean {
  return (parseDuration(text) ?? 0) > 0;
}

/** Numbers of nodes by which the ranks can be divided, those nearest to `nodes`. */
export function divisorsNear(ranks: number, nodes: number): number[] {
  return Array.from({ length: ranks }, (_, index) => index + 1)
    .filter((count) => ranks % count === 0)
    .sort((a, b) => Math.abs(a - nodes) - Math.abs(b - nodes))
    .slice(0, MOST_DIVISORS)
    .sort((a, b) => a - b);
}

export function toRanksFile(values: RanksValues): RanksFile {
  return {
    ranks: values.ranks,
    nodes: values.nodes,
    ...(values.gpu === null ? {} : { gpu: values.gpu === ANY_GPU ? 1 : values.gpu }),
    cpu: values.cpu,
    memory: values.memory.trim(),
    max_duration: values.duration.trim(),
    idle: values.idle.trim() === "" ? "off" : values.idle.trim(),
  };
}
