/** The nodes of a session and its attached ranks, for the choice of a terminal's node. */
import i18next from "i18next";
import type { Job } from "@/api/types";
import { describeRanks, nameOfJob } from "@/lib/describe";

export interface NodeOfJob {
  job: string;
  node: string;
}

/** Option groups of a select, one for each job in which the user can open a terminal. Option value: `<job ID> <node name>`. */
export function nodeChoices(jobs: readonly Job[]): { group: string; items: { value: string; label: string }[] }[] {
  return jobs
    .filter((job) => job.actions.includes("attach") && job.nodes.length > 0)
    .map((job) => ({
      group: job.session_id === null ? nameOfJob(job) : i18next.t("Ranks: {{ranks}}", { ranks: describeRanks(job) }),
      items: job.nodes.map((node) => ({ value: `${job.id} ${node}`, label: node })),
    }));
}
