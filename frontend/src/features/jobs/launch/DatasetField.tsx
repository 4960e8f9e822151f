import { Anchor, type ComboboxItem, Input, MultiSelect, type OptionsFilter, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Dataset, datasetsQuery } from "@/api/catalog";
import { ToneBadge } from "@/components/ToneBadge";
import { chooseDatasets, datasetPlace, datasetReference, isDamaged, isReadable, matchesDataset, readersText, splitReference } from "@/features/datasets/datasets";
import { formatBytes } from "@/lib/units";
import classes from "@/components/Picker.module.css";

interface Props {
  value: string[];
  /** User and project of the job; datasets without read access are listed but disabled. */
  user: string;
  project: string;
  /** Whether the job runs without a container. */
  bare: boolean;
  error: string | undefined;
  onChange: (datasets: string[]) => void;
}

/** Selection of datasets, with the path of each in the job. */
export function DatasetField({ value, user, project, bare, error, onChange }: Props) {
  const { t } = useTranslation();
  const query = useQuery(datasetsQuery);
  const datasets = (query.data?.items ?? []).filter((dataset) => !dataset.retired);
  const byReference = new Map(datasets.map((dataset) => [datasetReference(dataset), dataset]));
  if (datasets.length === 0 && value.length === 0) return <NoDatasets failed={query.isError} pending={query.isPending} />;
  const isUnreadable = (reference: string) => {
    const dataset = byReference.get(reference);
    return dataset !== undefined && !isReadable(dataset, user, project);
  };
  const options = [...new Set([...byReference.keys(), ...value])].map((reference) => ({
    value: reference,
    label: reference.replace(":", " "),
    disabled: isUnreadable(reference) && !value.includes(reference),
  }));
  return (
    <>
      <MultiSelect
        label={t("Datasets")}
        description={bare ? t("Read access. Without a container, file permissions control write access.") : t("Read-only in the job.")}
        placeholder={value.length === 0 ? t("None") : ""}
        data={options}
        value={value}
        error={error}
        searchable
        clearable
        hidePickedOptions={false}
        maxDropdownHeight={340}
        filter={search(byReference)}
        nothingFoundMessage={t("No dataset matches.")}
        renderOption={({ option, checked }) => (
          <Option dataset={byReference.get(option.value)} label={option.label} unreadable={isUnreadable(option.value)} checked={checked ?? false} />
        )}
        onChange={(next) => onChange(chooseDatasets(value, next))}
        data-testid="launch-datasets"
      />
      {value.length > 0 && (
        <ul className={classes.places} aria-label={t("Dataset paths")}>
          {value.map((reference) => (
            <DatasetPath key={reference} reference={reference} dataset={byReference.get(reference)} bare={bare} />
          ))}
        </ul>
      )}
    </>
  );
}

function NoDatasets({ failed, pending }: { failed: boolean; pending: boolean }) {
  const { t } = useTranslation();
  return (
    <Input.Wrapper label={t("Datasets")} labelElement="div">
      <Text size="sm" c="dimmed" role="status">
        {failed ? (
          t("Could not load the datasets.")
        ) : pending ? (
          t("Loading datasets…")
        ) : (
          <>
            {t("No datasets available.")}{" "}
            <Anchor component={Link} to="/datasets" size="sm" underline="always">
              {t("How to add a dataset")}
            </Anchor>
          </>
        )}
      </Text>
    </Input.Wrapper>
  );
}

function search(byReference: ReadonlyMap<string, Dataset>): OptionsFilter {
  return ({ options, search: text }) =>
    (options as ComboboxItem[]).filter((option) => {
      const dataset = byReference.get(option.value);
      return matchesDataset(dataset ?? { ...asDataset(option.value), description: "", owner: "" }, text);
    });
}

function asDataset(reference: string): { name: string; version: string } {
  const { name, version } = splitReference(reference);
  return { name, version: version ?? "" };
}

interface OptionProps {
  dataset: Dataset | undefined;
  label: string;
  unreadable: boolean;
  checked: boolean;
}

function Option({ dataset, label, unreadable, checked }: OptionProps) {
  const { t } = useTranslation();
  return (
    <span className={classes.option}>
      <span className={classes.optionText}>
        <span className={classes.optionHead}>
          <strong>{label}</strong>
          {dataset && <span className={classes.dim}>{formatBytes(dataset.size_bytes)}</span>}
        </span>
        {dataset && (
          <span className={classes.optionSub}>
            {unreadable ? readersText(dataset) : [dataset.description, t("{{count}} files", { count: dataset.files })].filter(Boolean).join(" · ")}
          </span>
        )}
        {dataset && isDamaged(dataset) && (
          <span className={classes.badges}>
            <ToneBadge tone="bad">{t("Damaged")}</ToneBadge>
          </span>
        )}
      </span>
      {checked && <Check size={16} aria-hidden />}
    </span>
  );
}

function DatasetPath({ reference, dataset, bare }: { reference: string; dataset: Dataset | undefined; bare: boolean }) {
  const { t } = useTranslation();
  const { name, version } = splitReference(reference);
  return (
    <li className={classes.place}>
      <span className="mono">{datasetPlace(name, bare)}</span>
      <Text span size="xs" c="dimmed">
        {[version === null ? "" : t("Version {{version}}", { version }), dataset ? formatBytes(dataset.size_bytes) : ""].filter(Boolean).join(", ")}
      </Text>
      {dataset && isDamaged(dataset) && (
        <span className={classes.warning} role="alert">
          <TriangleAlert size={14} aria-hidden />
          {t("{{count}} paths differed at the last verification.", { count: dataset.damaged_files ?? 0 })}
        </span>
      )}
    </li>
  );
}
