import { Alert, Button, Group, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, GitCommitHorizontal, Info, OctagonX } from "lucide-react";
import { useTranslation } from "react-i18next";
import { rerunQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { Modal } from "@/components/Modal";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { nameOfJob } from "@/lib/describe";

interface Props {
  job: Job;
  opened: boolean;
  /** Label of the confirming button. */
  action: string;
  busy: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Lists the changes since a job's run before it is run again. */
export function RerunDialog({ job, opened, action, busy, onConfirm, onClose }: Props) {
  const { t } = useTranslation();
  const query = useQuery({ ...rerunQuery(job.id), enabled: opened });
  const check = query.data;
  return (
    <Modal opened={opened} onClose={onClose} title={<strong>{t("Run {{name}} again?", { name: nameOfJob(job) })}</strong>} size="lg">
      <Stack gap="sm" mih={72} data-testid="rerun">
        {query.isPending && <Skeleton h={64} />}
        {query.isError && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
        {check?.problems.map((problem) => (
          <Alert key={problem.field} color="red" variant="light" icon={<OctagonX size={18} />} title={t("Cannot be run again unchanged")}>
            <ServerText>{problem.message}</ServerText>
          </Alert>
        ))}
        {check !== undefined && check.changes.length > 0 && (
          <Alert color="yellow" variant="light" icon={<GitCommitHorizontal size={18} />} title={t("Changes since this run")}>
            <ul style={{ margin: 0, paddingLeft: 18 }}>
              {check.changes.map((change) => (
                <li key={change.message}>
                  <ServerText>{change.message}</ServerText>
                </li>
              ))}
            </ul>
          </Alert>
        )}
        {check?.possible === true && check.changes.length === 0 && (
          <Alert color="moon" variant="light" icon={<CircleCheck size={18} />}>
            {t("No changes detected since this run.")}
          </Alert>
        )}
        {check?.notes.map((note) => (
          <Text key={note} size="sm" c="dimmed">
            <Info size={14} style={{ verticalAlign: "-2px", marginRight: 6 }} aria-hidden />
            <ServerText>{note}</ServerText>
          </Text>
        ))}
      </Stack>
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose}>
          {t("Cancel")}
        </Button>
        <Button loading={busy} disabled={query.isPending || check?.possible === false} onClick={onConfirm} data-autofocus data-testid="rerun-yes">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
