import { Button, Group, Select, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { FolderOpen, UserPlus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeReaders, type Dataset, type Grant } from "@/api/catalog";
import { projectsQuery } from "@/api/projects";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";
import classes from "@/pages/Catalog.module.css";

/** The projects whose members may read it; its owner changes them. */
export function DatasetReaders({ dataset, mine }: { dataset: Dataset; mine: boolean }) {
  const { t } = useTranslation();
  const [revoking, setRevoking] = useState<string | null>(null);
  const change = useChange(dataset);
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="readers-title">
      <Title order={2} size="h5" mb="sm" id="readers-title">
        {t("Who may read it")}
      </Title>
      {dataset.projects.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("Only {{owner}}, its owner.", { owner: dataset.owner })}
        </Text>
      )}
      <ul className={classes.projects}>
        {dataset.projects.map((project) => (
          <li key={project} className={classes.project} data-testid="dataset-project">
            <span>
              <FolderOpen size={15} aria-hidden style={{ verticalAlign: "-2px" }} /> {project}
            </span>
            {mine && (
              <Button variant="subtle" color="red" size="compact-sm" onClick={() => setRevoking(project)} aria-label={t("Revoke {{project}}", { project })}>
                {t("Revoke")}
              </Button>
            )}
          </li>
        ))}
      </ul>
      {mine && <GrantField dataset={dataset} busy={change.isPending} onGrant={(project) => change.mutate({ grant: project })} />}
      <Confirm
        opened={revoking !== null}
        title={t("Revoke {{revoking}}?", { revoking: revoking ?? "" })}
        action={t("Revoke")}
        busy={change.isPending}
        onClose={() => setRevoking(null)}
        onConfirm={() => change.mutate({ revoke: revoking ?? "" }, { onSettled: () => setRevoking(null) })}
      >
        {t("Members of the project can no longer name it in new jobs. Jobs that run keep reading it.")}
      </Confirm>
    </section>
  );
}

function useChange(dataset: Dataset) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (change: Grant) => changeReaders(dataset, change),
    onSuccess: (_, change) => notifyDone("grant" in change ? t("Its members may read it now.") : t("Its members may no longer read it.")),
    onError: (error) => notifyProblem(t("It stays as it was"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.datasets }),
  });
}

function GrantField({ dataset, busy, onGrant }: { dataset: Dataset; busy: boolean; onGrant: (project: string) => void }) {
  const { t } = useTranslation();
  const projects = useQuery(projectsQuery).data?.items.map((project) => project.name) ?? [];
  const [chosen, setChosen] = useState<string | null>(null);
  const left = projects.filter((project) => !dataset.projects.includes(project));
  const project = chosen !== null && left.includes(chosen) ? chosen : null;
  if (left.length === 0) return null;
  return (
    <Group gap="xs" mt="md" align="flex-end" wrap="nowrap">
      <Select
        label={t("Let another project read it")}
        placeholder={t("Project")}
        style={{ flex: 1, maxWidth: 260 }}
        data={left}
        value={project}
        onChange={setChosen}
        searchable={left.length > 8}
        data-testid="dataset-grant-project"
      />
      <Button
        variant="default"
        leftSection={<UserPlus size={15} />}
        disabled={project === null}
        loading={busy}
        onClick={() => project !== null && onGrant(project)}
        data-testid="dataset-grant"
      >
        {t("Grant")}
      </Button>
    </Group>
  );
}
