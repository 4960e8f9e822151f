import { Button, Group, Select, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box, Database, FolderPlus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeReaders, type Dataset, datasetsQuery, imagesQuery } from "@/api/catalog";
import { Confirm } from "@/components/Confirm";
import { EmptyState } from "@/components/EmptyState";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { TableSkeleton } from "@/components/TableSkeleton";
import { ToneBadge } from "@/components/ToneBadge";
import type { Project } from "@/api/projects";
import { datasetReference } from "@/lib/datasets";
import type { Rights } from "@/lib/projects";
import { formatBytes } from "@/lib/units";
import classes from "./Projects.module.css";

/** What jobs of the project read and run in. */
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
  const [ending, setEnding] = useState<Dataset | null>(null);
  const change = useReading(project.name);
  const all = query.data?.items;
  const here = all?.filter((each) => each.projects.includes(project.name) && !each.retired) ?? [];
  const mine = all?.filter((each) => !each.projects.includes(project.name) && !each.retired && (each.owner === me || rights.admin)) ?? [];
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="datasets-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="datasets-title">
          {t("Datasets")}
        </Title>
        {mine.length > 0 && rights.role !== null && (
          <GrantField datasets={mine} busy={change.isPending} onGrant={(dataset) => change.mutate({ dataset, grant: true })} />
        )}
      </div>
      {query.isPending && <TableSkeleton rows={2} />}
      {query.isError && !all && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {all && here.length === 0 && (
        <EmptyState icon={Database} title={t("No datasets yet")}>
          {t("Whoever owns a dataset can let this project read it, here or on the dataset's page.")}
        </EmptyState>
      )}
      <ul className={classes.plain}>
        {here.map((dataset) => (
          <li key={datasetReference(dataset)} className={classes.line} data-testid="project-dataset">
            <span style={{ minWidth: 0 }}>
              <Link to="/datasets/$name/$version" params={{ name: dataset.name, version: dataset.version }} className={classes.link}>
                {datasetReference(dataset)}
              </Link>{" "}
              <Text span size="sm" c="dimmed">
                {formatBytes(dataset.size_bytes)} · {t("of {{owner}}", { owner: dataset.owner })}
              </Text>
            </span>
            {(rights.manages || dataset.owner === me) && (
              <Button variant="subtle" color="red" size="compact-sm" onClick={() => setEnding(dataset)} aria-label={t("End reading of {{dataset}}", { dataset: datasetReference(dataset) })}>
                {t("End reading")}
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Confirm
        opened={ending !== null}
        title={t("End reading of {{dataset}}?", { dataset: ending === null ? "" : datasetReference(ending) })}
        action={t("End reading")}
        busy={change.isPending}
        onClose={() => setEnding(null)}
        onConfirm={() => ending && change.mutate({ dataset: ending, grant: false }, { onSettled: () => setEnding(null) })}
      >
        {t("Members of the project can no longer name it in new jobs. Jobs that run keep reading it.")}
      </Confirm>
    </section>
  );
}

function useReading(project: string) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ dataset, grant }: { dataset: Dataset; grant: boolean }) =>
      changeReaders(dataset, grant ? { grant: project } : { revoke: project }),
    onSuccess: (_, { grant }) => notifyDone(grant ? t("Its members may read it now.") : t("Its members may no longer read it.")),
    onError: (error) => notifyProblem(t("It stays as it was"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: catalogKeys.datasets }),
  });
}

function GrantField({ datasets, busy, onGrant }: { datasets: readonly Dataset[]; busy: boolean; onGrant: (dataset: Dataset) => void }) {
  const { t } = useTranslation();
  const [chosen, setChosen] = useState<string | null>(null);
  const found = datasets.find((each) => datasetReference(each) === chosen);
  return (
    <Group gap="xs" wrap="nowrap">
      <Select
        aria-label={t("A dataset of yours")}
        placeholder={t("A dataset of yours")}
        data={datasets.map(datasetReference)}
        value={found === undefined ? null : chosen}
        onChange={setChosen}
        searchable={datasets.length > 8}
        size="sm"
        miw={0}
        data-testid="project-grant-dataset"
      />
      <Button size="sm" variant="default" flex="none" leftSection={<FolderPlus size={15} />} disabled={found === undefined} loading={busy} onClick={() => found && onGrant(found)} data-testid="project-grant">
        {t("Grant")}
      </Button>
    </Group>
  );
}

function Images({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useQuery(imagesQuery);
  const images = query.data?.items.filter((each) => each.projects.length === 0 || each.projects.includes(name));
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="images-title">
      <div className={classes.panelHead}>
        <Title order={2} size="h5" id="images-title">
          {t("Images")}
        </Title>
      </div>
      {query.isPending && <TableSkeleton rows={2} />}
      {query.isError && !images && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {images?.length === 0 && (
        <EmptyState icon={Box} title={t("No images yet")}>
          {t("An administrator says which projects see an image.")}
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
