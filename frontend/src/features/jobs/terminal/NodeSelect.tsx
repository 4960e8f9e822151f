import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { jobQuery } from "@/api/queries";
import { ranksQuery } from "@/api/ranks";
import type { Job } from "@/api/types";
import { nodeChoices, type NodeOfJob } from "./nodes";

interface Props {
  job: Job;
  /** The node of the shell; null: the first one of the job. */
  node: string | null;
  onChange: (next: NodeOfJob) => void;
}

/** The nodes on which a terminal can be opened: those of the job, and of a session also those of its attached ranks. */
export function NodeSelect({ job, node, onChange }: Props) {
  const { t } = useTranslation();
  const id = job.session_id ?? (job.type === "session" ? job.id : null);
  const { data: session } = useQuery({ ...jobQuery(id ?? job.id), enabled: job.session_id !== null });
  const { data: groups } = useQuery({ ...ranksQuery(id ?? job.id), enabled: id !== null });
  const jobs = id === null ? [job] : [...(job.session_id === null ? [job] : session === undefined ? [] : [session]), ...(groups?.items ?? [])];
  const choices = nodeChoices(jobs.some((other) => other.id === job.id) ? jobs : [job, ...jobs]);
  const chosen = choices.flatMap(({ items }) => items);
  if (chosen.length < 2) return null;
  return (
    <Select
      aria-label={t("Node")}
      size="xs"
      w={190}
      data={choices}
      value={`${job.id} ${node ?? job.nodes[0] ?? ""}`}
      allowDeselect={false}
      onChange={(value) => {
        const [next = "", name = ""] = (value ?? "").split(" ");
        if (next !== "") onChange({ job: next, node: name });
      }}
      data-testid="terminal-node"
    />
  );
}
