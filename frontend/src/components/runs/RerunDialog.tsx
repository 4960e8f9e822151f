import { Alert, Button, Group, Modal, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, GitCommitHorizontal, Info, OctagonX } from "lucide-react";
import { useTranslation } from "react-i18next";
import { rerunQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { PageError } from "@/components/PageError";
import { Said } from "@/components/Said";

interface Props {
  job: Job;
  opened: boolean;
  /** What is done, on the button. */
  action: string;
  busy: boolean;
  onConfirm: () => void;
  onClose: () => void;
}

/** Before a job is run again: what has changed since. */
export function RerunDialog({ job, opened, action, busy, onConfirm, onClose }: Props) {
  const { t } = useTranslation();
  const query = useQuery({ ...rerunQuery(job.id), enabled: opened });
  const found = query.data;
  return (
    <Modal opened={opened} onClose={onClose} title={<strong>{t("Run {{name}} again?", { name: job.name })}</strong>} size="lg">
      <Stack gap="sm" mih={72} data-testid="rerun">
        {query.isPending && <Skeleton h={64} />}
        {query.isError && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
        {found?.problems.map((problem) => (
          <Alert key={problem.field} color="red" variant="light" icon={<OctagonX size={18} />} title={t("It cannot be run as it was")}>
            <Said>{problem.message}</Said>
          </Alert>
        ))}
        {found !== undefined && found.changes.length > 0 && (
          <Alert color="yellow" variant="light" icon={<GitCommitHorizontal size={18} />} title={t("Changed since it ran")}>
            <ul style={{ margin: 0, paddingLeft: 18 }}>
              {found.changes.map((change) => (
                <li key={change.message}>
                  <Said>{change.message}</Said>
                </li>
              ))}
            </ul>
          </Alert>
        )}
        {found?.possible === true && found.changes.length === 0 && (
          <Alert color="moon" variant="light" icon={<CircleCheck size={18} />}>
            {t("Nothing that it ran on has changed, as far as is known.")}
          </Alert>
        )}
        {found?.notes.map((note) => (
          <Text key={note} size="sm" c="dimmed">
            <Info size={14} style={{ verticalAlign: "-2px", marginRight: 6 }} aria-hidden />
            <Said>{note}</Said>
          </Text>
        ))}
      </Stack>
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose}>
          {t("Not now")}
        </Button>
        <Button loading={busy} disabled={query.isPending || found?.possible === false} onClick={onConfirm} data-autofocus data-testid="rerun-yes">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
