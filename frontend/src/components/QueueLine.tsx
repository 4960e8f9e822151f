import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ListOrdered } from "lucide-react";
import { queueQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ordinal, plural } from "@/lib/units";

/** "3rd in line of partition gpu, of 12 that wait": by the scheduler's priority, as of a moment ago. */
export function QueueLine({ job, mt }: { job: Job; mt?: string }) {
  const { data } = useQuery({ ...queueQuery(job.id), enabled: job.state === "QUEUED" && job.partition !== null });
  const place = data?.place ?? null;
  if (job.state !== "QUEUED" || place === null) return null;
  return (
    <Text component="div" size="sm" c="dimmed" mt={mt} data-testid="queue-line">
      <ListOrdered size={14} aria-hidden style={{ verticalAlign: "-2px", marginRight: 6 }} />
      {ordinal(place.place)} in line of partition {place.partition}
      {place.waiting > 1 && `, of ${plural(place.waiting, "job")} that wait`}
    </Text>
  );
}
