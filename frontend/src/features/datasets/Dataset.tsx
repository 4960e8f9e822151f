import { Alert, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Archive, CircleAlert, Database } from "lucide-react";
import { Trans, useTranslation } from "react-i18next";
import { catalogKeys, type Dataset, datasetQuery, datasetsQuery, retireDataset } from "@/api/catalog";
import { meQuery } from "@/api/queries";
import { CatalogHead } from "@/components/CatalogHead";
import { CommandLine } from "@/components/CommandLine";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { RetireButton } from "@/components/RetireButton";
import { RelativeTime } from "@/components/Time";
import { VersionList } from "@/components/VersionList";
import { formatBytes } from "@/lib/units";
import { DatasetReaders } from "./DatasetReaders";
import { datasetLook, datasetPlace, datasetReference, isDamaged } from "./datasets";
import jobClasses from "@/components/Job.module.css";
import classes from "@/components/Catalog.module.css";

export function DatasetPage() {
  const { name, version } = useParams({ from: "/shell/datasets/$name/$version" });
  const query = useQuery(datasetQuery(name, version));
  useDocumentTitle(`${name} ${version} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  return <LoadedDataset key={`${name}:${version}`} dataset={query.data} />;
}

function LoadedDataset({ dataset }: { dataset: Dataset }) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const versions = useQuery(datasetsQuery).data?.items.filter((each) => each.name === dataset.name) ?? [];
  const mine = dataset.owner === me.user.name || me.user.role === "admin";
  return (
    <>
      <Head dataset={dataset} mine={mine} />
      {isDamaged(dataset) && (
        <Alert color="red" icon={<CircleAlert size={18} />} mb="md" title={t("{{count}} paths differ from the manifest", { count: dataset.damaged_files ?? 0 })}>
          {t("The last verification found missing, additional or modified files. List them with:")}
          <span className={classes.command}>
            <CommandLine command={`aitne dataset verify ${datasetReference(dataset)}`} />
          </span>
        </Alert>
      )}
      {dataset.retired && (
        <Alert color="gray" icon={<Archive size={18} />} mb="md" title={t("Retired")}>
          {t("New jobs cannot use this dataset. Its files are kept.")}
        </Alert>
      )}
      <div className={classes.grid}>
        <div className={classes.column}>
          <Details dataset={dataset} />
          <DatasetReaders dataset={dataset} editable={mine} />
        </div>
        <aside className={classes.column}>
          <JobFileUsage dataset={dataset} />
          {versions.length > 1 && (
            <VersionList to="/datasets/$name/$version" current={dataset.version} versions={versions} look={datasetLook} />
          )}
        </aside>
      </div>
    </>
  );
}

function Head({ dataset, mine }: { dataset: Dataset; mine: boolean }) {
  const { t } = useTranslation();
  return (
    <CatalogHead back={{ to: "/datasets", title: t("Datasets") }} icon={Database} entry={dataset} look={datasetLook(dataset)}>
      {mine && (
        <RetireButton
          title={`${dataset.name} ${dataset.version}`}
          retired={dataset.retired}
          queryKey={catalogKeys.datasets}
          change={(retired) => retireDataset(dataset, retired)}
        >
          {t("New jobs can no longer use this dataset. Its files are kept, and running jobs continue.")}
        </RetireButton>
      )}
    </CatalogHead>
  );
}

function Details({ dataset }: { dataset: Dataset }) {
  const { t } = useTranslation();
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="details-title">
      <Title order={2} size="h5" mb="sm" id="details-title">
        {t("Details")}
      </Title>
      <dl className={jobClasses.list}>
        <DetailRow name={t("Size")}>
          {t("{{size}} in {{count}} files", { size: formatBytes(dataset.size_bytes), count: dataset.files })}
        </DetailRow>
        <DetailRow name={t("Owner")}>{dataset.owner}</DetailRow>
        <DetailRow name={t("Licence")}>{dataset.licence === "" ? t("not specified") : dataset.licence}</DetailRow>
        <DetailRow name={t("Folder")}>
          <Identifier value={dataset.path} what={t("the folder")} />
        </DetailRow>
        <DetailRow name={t("Added")}>
          <RelativeTime at={dataset.created_at} />
        </DetailRow>
        <DetailRow name={t("Verified")}>
          {dataset.verified_at === null ? (
            t("not since it was added")
          ) : (
            <span>
              <RelativeTime at={dataset.verified_at} />
              {dataset.verified_by !== null && ` ${t("by {{user}}", { user: dataset.verified_by })}`}
            </span>
          )}
        </DetailRow>
        <DetailRow name={t("Manifest")}>
          <Identifier value={dataset.manifest} short={`${dataset.manifest.slice(0, 12)}…`} what={t("the manifest's checksum")} />
        </DetailRow>
      </dl>
    </section>
  );
}

function JobFileUsage({ dataset }: { dataset: Dataset }) {
  const { t } = useTranslation();
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="use-title">
      <Title order={2} size="h5" mb="sm" id="use-title">
        {t("Use in a job file")}
      </Title>
      <CommandLine command={`datasets: [${datasetReference(dataset)}]`} what={t("the line")} />
      <Text size="sm" c="dimmed" mt="sm">
        <Trans
          i18nKey="Path in a container: <1>{{inside}}</1>; without a container: <1>{{outside}}</1>."
          values={{ inside: datasetPlace(dataset.name, false), outside: datasetPlace(dataset.name, true) }}
          components={{ 1: <span className="mono" /> }}
        />
      </Text>
    </section>
  );
}
