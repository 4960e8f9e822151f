import { Group, Select, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { FolderOpen, UserPlus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeReaders, type Dataset, type Grant } from "@/api/catalog";
import { projectsQuery } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";
import classes from "@/components/Catalog.module.css";

/** The projects with read access to a dataset; the owner can change them. */
export function DatasetReaders({ dataset, editable }: { dataset: Dataset; editable: boolean }) {
  const { t } = useTranslation();
  const [revoking, setRevoking] = useState<string | null>(null);
  const change = useChange(dataset);
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="readers-title">
      <Title order={2} size="h5" mb="sm" id="readers-title">
        {t("Read access")}
      </Title>
      {dataset.projects.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("Owner only ({{owner}})", { owner: dataset.owner })}
        </Text>
      )}
      <ul className={classes.projects}>
        {dataset.projects.map((project) => (
          <li key={project} className={classes.project} data-testid="dataset-project">
            <span>
              <FolderOpen size={15} aria-hidden style={{ verticalAlign: "-2px" }} /> {project}
            </span>
            {editable && (
              <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setRevoking(project)} aria-label={t("Revoke {{project}}", { project })}>
                {t("Revoke")}
              </ChangeButton>
            )}
          </li>
        ))}
      </ul>
      {editable && <GrantField dataset={dataset} busy={change.isPending} onGrant={(project) => change.mutate({ grant: project })} />}
      <Confirm
        opened={revoking !== null}
        title={t("Revoke {{revoking}}?", { revoking: revoking ?? "" })}
        action={t("Revoke")}
        busy={change.isPending}
        onClose={() => setRevoking(null)}
        onConfirm={() => change.mutate({ revoke: revoking ?? "" }, { onSettled: () => setRevoking(null) })}
      >
        {t("Project members can no longer use the dataset in new jobs. Running jobs keep access.")}
      </Confirm>
    </section>
  );
}

function useChange(dataset: Dataset) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (change: Grant) => changeReaders(dataset, change),
    onSuccess: (_, change) => notifyDone("grant" in change ? t("Access granted.") : t("Access revoked.")),
    onError: (error) => notifyProblem(t("Could not change access"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.datasets }),
  });
}

function GrantField({ dataset, busy, onGrant }: { dataset: Dataset; busy: boolean; onGrant: (project: string) => void }) {
  const { t } = useTranslation();
  const projects = useQuery(projectsQuery).data?.items.map((project) => project.name) ?? [];
  const [selection, setSelection] = useState<string | null>(null);
  const available = projects.filter((project) => !dataset.projects.includes(project));
  const project = selection !== null && available.includes(selection) ? selection : null;
  if (available.length === 0) return null;
  return (
    <Group gap="xs" mt="md" align="flex-end" wrap="nowrap">
      <Select
        label={t("Grant access to project")}
        placeholder={t("Project")}
        style={{ flex: 1, maxWidth: 260 }}
        data={available}
        value={project}
        onChange={setSelection}
        searchable={available.length > 8}
        limit={100}
        data-testid="dataset-grant-project"
      />
      <ChangeButton
        variant="default"
        leftSection={<UserPlus size={15} />}
        disabled={project === null}
        loading={busy}
        onClick={() => project !== null && onGrant(project)}
        data-testid="dataset-grant"
      >
        {t("Grant")}
      </ChangeButton>
    </Group>
  );
}
