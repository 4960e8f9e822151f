import { Anchor, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Lightbulb, ListOrdered } from "lucide-react";
import { useTranslation } from "react-i18next";
import { queueQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ServerText } from "@/components/ServerText";
import { RelativeTime } from "@/components/Time";
import { nameOfJob } from "@/lib/describe";

/** "Position 3 of 12 in the queue of partition gpu", by the scheduler's priority, and advice for an earlier start. */
export function QueuePosition({ job, mt }: { job: Job; mt?: string }) {
  const { t } = useTranslation();
  const { data } = useQuery({ ...queueQuery(job.id), enabled: job.state === "QUEUED" });
  const place = data?.position ?? null;
  const advice = data?.advice ?? [];
  if (job.state !== "QUEUED" || (place === null && advice.length === 0)) return null;
  return (
    <Text component="div" size="sm" c="dimmed" mt={mt} data-testid="queue-line">
      {place !== null && (
        <div style={LINE}>
          <ListOrdered size={14} aria-hidden style={ICON} />
          <span>
            {place.waiting > 1
              ? t("Position {{place}} of {{waiting}} in the queue of partition {{partition}}", { ...place, place: place.position })
              : t("Position {{place}} in the queue of partition {{partition}}", { ...place, place: place.position })}
          </span>
        </div>
      )}
      {advice.map((item) => (
        <div key={item.text} data-testid="advice" style={LINE}>
          <Lightbulb size={14} aria-hidden style={ICON} />
          <span>
            <ServerText>{item.text}</ServerText> {item.at && <RelativeTime at={item.at} />}
            {item.jobs.map(({ id, name, array_task_id, owner }, index) => (
              <span key={id}>
                {index > 0 && ", "}
                <Anchor component={Link} to={`/jobs/${id}`} size="sm" underline="always">
                  {nameOfJob({ name, array_task_id })}
                </Anchor>
                {owner !== null && ` (${owner})`}
              </span>
            ))}
          </span>
        </div>
      ))}
    </Text>
  );
}

const LINE = { display: "flex", gap: 6 };
const ICON = { flex: "none", marginTop: 3 };
