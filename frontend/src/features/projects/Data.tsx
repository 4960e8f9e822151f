import { Group, Select, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box, Database, FolderPlus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeReaders, type Dataset, datasetsQuery, imagesQuery } from "@/api/catalog";
import type { Project } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { EmptyState } from "@/components/EmptyState";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import { ToneBadge } from "@/components/ToneBadge";
import { datasetReference } from "@/features/datasets/datasets";
import { formatBytes } from "@/lib/units";
import type { Rights } from "./projects";
import classes from "./Projects.module.css";

/** Datasets and images that the project's jobs can use. */
export function Data({ project, rights, me }: { project: Project; rights: Rights; me: string }) {
  return (
    <div className={classes.column}>
      <Datasets project={project} rights={rights} me={me} />
      <Images name={project.name} />
    </div>
  );
}

function Datasets({ project, rights, me }: { project: Project; rights: Rights; me: string }) {
  const { t } = useTranslation();
  const query = useQuery(datasetsQuery);
  const [revoking, setRevoking] = useState<Dataset | null>(null);
  const change = useAccessChange(project.name);
  const all = query.data?.items;
  const granted = all?.filter((dataset) => dataset.projects.includes(project.name) && !dataset.retired) ?? [];
  const grantable = all?.filter((dataset) => !dataset.projects.includes(project.name) && !dataset.retired && (dataset.owner === me || rights.admin)) ?? [];
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="datasets-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="datasets-title">
          {t("Datasets")}
        </Title>
        {grantable.length > 0 && rights.role !== null && (
          <GrantField datasets={grantable} busy={change.isPending} onGrant={(dataset) => change.mutate({ dataset, grant: true })} />
        )}
      </div>
      {query.isPending && <TableSkeleton rows={2} />}
      {query.isError && !all && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {all && granted.length === 0 && (
        <EmptyState icon={Database} title={t("No datasets yet")}>
          {t("Dataset owners can grant this project read access here or on the dataset's page.")}
        </EmptyState>
      )}
      <ul className={classes.plain}>
        {granted.map((dataset) => (
          <li key={datasetReference(dataset)} className={classes.line} data-testid="project-dataset">
            <span style={{ minWidth: 0 }}>
              <Link to="/datasets/$name/$version" params={{ name: dataset.name, version: dataset.version }} className={classes.link}>
                {datasetReference(dataset)}
              </Link>{" "}
              <Text span size="sm" c="dimmed">
                {formatBytes(dataset.size_bytes)} · {t("owner: {{owner}}", { owner: dataset.owner })}
              </Text>
            </span>
            {(rights.manages || dataset.owner === me) && (
              <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setRevoking(dataset)} aria-label={t("Revoke access to {{dataset}}", { dataset: datasetReference(dataset) })}>
                {t("Revoke access")}
              </ChangeButton>
            )}
          </li>
        ))}
      </ul>
      <Confirm
        opened={revoking !== null}
        title={t("Revoke access to {{dataset}}?", { dataset: revoking === null ? "" : datasetReference(revoking) })}
        action={t("Revoke access")}
        busy={change.isPending}
        onClose={() => setRevoking(null)}
        onConfirm={() => revoking && change.mutate({ dataset: revoking, grant: false }, { onSettled: () => setRevoking(null) })}
      >
        {t("Project members can no longer use the dataset in new jobs. Running jobs keep access.")}
      </Confirm>
    </section>
  );
}

function useAccessChange(project: string) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ dataset, grant }: { dataset: Dataset; grant: boolean }) =>
      changeReaders(dataset, grant ? { grant: project } : { revoke: project }),
    onSuccess: (_, { grant }) => notifyDone(grant ? t("Access granted.") : t("Access revoked.")),
    onError: (error) => notifyProblem(t("Could not change access"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.datasets }),
  });
}

function GrantField({ datasets, busy, onGrant }: { datasets: readonly Dataset[]; busy: boolean; onGrant: (dataset: Dataset) => void }) {
  const { t } = useTranslation();
  const [reference, setReference] = useState<string | null>(null);
  const selected = datasets.find((dataset) => datasetReference(dataset) === reference);
  return (
    <Group gap="xs">
      <Select
        aria-label={t("Select dataset")}
        placeholder={t("Select dataset")}
        data={datasets.map(datasetReference)}
        value={selected === undefined ? null : reference}
        onChange={setReference}
        searchable={datasets.length > 8}
        size="sm"
        miw={200}
        data-testid="project-grant-dataset"
      />
      <ChangeButton size="sm" variant="default" flex="none" leftSection={<FolderPlus size={15} />} disabled={selected === undefined} loading={busy} onClick={() => selected && onGrant(selected)} data-testid="project-grant">
        {t("Grant access")}
      </ChangeButton>
    </Group>
  );
}

function Images({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(imagesQuery);
  const images = query.data?.items.filter((image) => image.projects.length === 0 || image.projects.includes(name));
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="images-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="images-title">
          {t("Images")}
        </Title>
      </div>
      {query.isPending && <TableSkeleton rows={2} />}
      {query.isError && !images && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {images?.length === 0 && (
        <EmptyState icon={Box} title={t("No images yet")}>
          {t("Administrators control which projects can use an image.")}
        </EmptyState>
      )}
      <ul className={classes.plain}>
        {images?.map((image) => (
          <li key={`${image.name}:${image.version}`} className={classes.line} data-testid="project-image">
            <span style={{ minWidth: 0 }}>
              <Link to="/images/$name/$version" params={{ name: image.name, version: image.version }} className={classes.link}>
                {image.name}:{image.version}
              </Link>{" "}
              <Text span size="sm" c="dimmed">
                {image.description}
              </Text>
            </span>
            {image.projects.length > 0 && <ToneBadge tone="active">{t("for this project")}</ToneBadge>}
          </li>
        ))}
      </ul>
    </section>
  );
}
