import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Database } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Dataset, datasetsQuery } from "@/api/catalog";
import { CatalogList } from "@/components/CatalogList";
import { CommandLine } from "@/components/CommandLine";
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
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table}>
        <thead>
          <tr>
            <th scope="col">{t("Dataset")}</th>
            <th scope="col">{t("State")}</th>
            <th scope="col">{t("Owner")}</th>
            <th scope="col">{t("Added")}</th>
            <th scope="col" className={tableClasses.num}>
              {t("Files")}
            </th>
            <th scope="col" className={tableClasses.num}>
              {t("Size")}
            </th>
          </tr>
        </thead>
        <tbody>
          {datasets.map((dataset) => (
            <DatasetRow key={datasetReference(dataset)} dataset={dataset} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DatasetRow({ dataset }: { dataset: Dataset }) {
  const { t } = useTranslation();
  const look = datasetLook(dataset);
  return (
    <tr className={tableClasses.row} data-testid="dataset-row" data-dataset={datasetReference(dataset)}>
      <td>
        <Link to="/datasets/$name/$version" params={{ name: dataset.name, version: dataset.version }} className={tableClasses.link}>
          {dataset.name} <span style={{ fontWeight: 500 }}>{dataset.version}</span>
        </Link>
        {dataset.description !== "" && <div className={classes.about}>{firstLine(dataset.description)}</div>}
      </td>
      <td>
        <ToneBadge tone={look.tone} dot>
          {look.label}
        </ToneBadge>
      </td>
      <td className={tableClasses.dim} data-label={t("Owner")}>
        {dataset.owner}
      </td>
      <td className={`${tableClasses.dim ?? ""} ${tableClasses.nowrap ?? ""} ${tableClasses.wide ?? ""}`} data-label={t("Added")}>
        <span className={tableClasses.above}>
          <RelativeTime at={dataset.created_at} />
        </span>
      </td>
      <td className={`${tableClasses.num ?? ""} ${tableClasses.wide ?? ""} tabular`} data-label={t("Files")}>
        {formatNumber(dataset.files)}
      </td>
      <td className={`${tableClasses.num ?? ""} tabular`} data-label={t("Size")}>
        {formatBytes(dataset.size_bytes)}
      </td>
    </tr>
  );
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? "";
}
