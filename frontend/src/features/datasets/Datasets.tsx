import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Database } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Dataset, datasetsQuery } from "@/api/catalog";
import { CatalogList } from "@/components/CatalogList";
import { CommandLine } from "@/components/CommandLine";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { formatBytes, formatNumber } from "@/lib/units";
import { ADD_COMMAND, datasetLook, datasetReference, filterDatasets } from "./datasets";
import tableClasses from "@/components/table.module.css";
import classes from "@/components/Catalog.module.css";

/** List of datasets. */
export function DatasetsPage() {
  const { t } = useTranslation();
  return (
    <CatalogList
      title={t("Datasets")}
      query={useQuery(datasetsQuery)}
      isRetired={(dataset) => dataset.retired}
      filter={filterDatasets}
      count={(count) => t("{{count}} datasets", { count })}
      none={{
        icon: Database,
        title: t("No datasets yet"),
        text: t("A dataset is a read-only folder with a checksum for each file. Add one on the cluster:"),
        action: <CommandLine command={ADD_COMMAND} />,
      }}
      unmatched={{ used: t("No active dataset matches. Retired datasets are hidden."), any: t("No dataset matches.") }}
      footer={
        <details className={classes.how}>
          <summary>{t("How to add a dataset")}</summary>
          <Text size="sm" c="dimmed" my="xs">
            {t("Run on the cluster with the path of the folder:")}
          </Text>
          <CommandLine command={ADD_COMMAND} />
        </details>
      }
    >
      {(matching) => <DatasetTable datasets={matching} />}
    </CatalogList>
  );
}

function DatasetTable({ datasets }: { datasets: readonly Dataset[] }) {
  const { t } = useTranslation();
  const columns: Column<Dataset>[] = [
    {
      header: t("Dataset"),
      cell: ({ name, version, description }) => (
        <>
          <Link to="/datasets/$name/$version" params={{ name, version }} className={tableClasses.link}>
            {name} <span style={{ fontWeight: 500 }}>{version}</span>
          </Link>
          {description !== "" && <div className={classes.about}>{firstLine(description)}</div>}
        </>
      ),
    },
    { header: t("State"), label: null, cell: (dataset) => <DatasetState dataset={dataset} /> },
    { header: t("Owner"), dim: true, cell: ({ owner }) => owner },
    {
      header: t("Added"),
      dim: true,
      nowrap: true,
      hideOnPhone: true,
      cell: ({ created_at }) => (
        <span className={tableClasses.above}>
          <RelativeTime at={created_at} />
        </span>
      ),
    },
    { header: t("Files"), align: "right", dim: true, hideOnPhone: true, cell: ({ files }) => formatNumber(files) },
    { header: t("Size"), align: "right", cell: ({ size_bytes }) => formatBytes(size_bytes) },
  ];
  return <DataTable columns={columns} rows={datasets} rowKey={datasetReference} linked rowTestId="dataset-row" rowProps={(dataset) => ({ "data-dataset": datasetReference(dataset) })} />;
}

function DatasetState({ dataset }: { dataset: Dataset }) {
  const look = datasetLook(dataset);
  return (
    <ToneBadge tone={look.tone} dot>
      {look.label}
    </ToneBadge>
  );
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
