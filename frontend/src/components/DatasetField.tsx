import { Anchor, type ComboboxItem, Input, MultiSelect, type OptionsFilter, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Dataset, datasetsQuery } from "@/api/catalog";
import { ToneBadge } from "@/components/ToneBadge";
import { chooseDatasets, datasetPlace, datasetReference, isDamaged, isReadable, matchesDataset, readersText, splitReference } from "@/lib/datasets";
import { formatBytes } from "@/lib/units";
import classes from "./Picker.module.css";

interface Props {
  value: string[];
  /** Who launches, and for which project: what else they may read is shown, but not to choose. */
  user: string;
  project: string;
  /** Whether it runs without a container. */
  bare: boolean;
  error: string | undefined;
  onChange: (datasets: string[]) => void;
}

/** Data that the job reads, and where it finds it. */
export function DatasetField({ value, user, project, bare, error, onChange }: Props) {
  const { t } = useTranslation();
  const query = useQuery(datasetsQuery);
  const datasets = (query.data?.items ?? []).filter((dataset) => !dataset.retired);
  const known = new Map(datasets.map((dataset) => [datasetReference(dataset), dataset]));
  if (datasets.length === 0 && value.length === 0) return <NoDatasets failed={query.isError} pending={query.isPending} />;
  const closed = (reference: string) => {
    const dataset = known.get(reference);
    return dataset !== undefined && !isReadable(dataset, user, project);
  };
  const options = [...new Set([...known.keys(), ...value])].map((reference) => ({
    value: reference,
    label: reference.replace(":", " "),
    disabled: closed(reference) && !value.includes(reference),
  }));
  return (
    <>
      <MultiSelect
        label={t("Datasets")}
        description={bare ? t("To read. Whether they can be changed there is up to the file system.") : t("To read: a job cannot change them.")}
        placeholder={value.length === 0 ? t("None") : ""}
        data={options}
        value={value}
        error={error}
        searchable
        clearable
        hidePickedOptions={false}
        maxDropdownHeight={340}
        filter={search(known)}
        nothingFoundMessage={t("No dataset has these words.")}
        renderOption={({ option, checked }) => (
          <Option dataset={known.get(option.value)} label={option.label} closed={closed(option.value)} checked={checked ?? false} />
        )}
        onChange={(next) => onChange(chooseDatasets(value, next))}
        data-testid="launch-datasets"
      />
      {value.length > 0 && (
        <ul className={classes.places} aria-label={t("Where the datasets will be")}>
          {value.map((reference) => (
            <Place key={reference} reference={reference} dataset={known.get(reference)} bare={bare} />
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
          t("The datasets could not be asked for.")
        ) : pending ? (
          t("Looking for datasets…")
        ) : (
          <>
            {t("There are none that you may read.")}{" "}
            <Anchor component={Link} to="/datasets" size="sm" underline="always">
              {t("How to add one")}
            </Anchor>
          </>
        )}
      </Text>
    </Input.Wrapper>
  );
}

function search(known: ReadonlyMap<string, Dataset>): OptionsFilter {
  return ({ options, search: text }) =>
    (options as ComboboxItem[]).filter((option) => {
      const dataset = known.get(option.value);
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
  closed: boolean;
  checked: boolean;
}

function Option({ dataset, label, closed, checked }: OptionProps) {
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
            {closed ? readersText(dataset) : [dataset.description, t("{{count}} files", { count: dataset.files })].filter(Boolean).join(" · ")}
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

function Place({ reference, dataset, bare }: { reference: string; dataset: Dataset | undefined; bare: boolean }) {
  const { t } = useTranslation();
  const { name, version } = splitReference(reference);
  return (
    <li className={classes.place}>
      <span className="mono">{datasetPlace(name, bare)}</span>
      <Text span size="xs" c="dimmed">
        {[version === null ? "" : `version ${version}`, dataset ? formatBytes(dataset.size_bytes) : ""].filter(Boolean).join(", ")}
      </Text>
      {dataset && isDamaged(dataset) && (
        <span className={classes.warning} role="alert">
          <TriangleAlert size={14} aria-hidden />
          {t("{{count}} paths differed when it was last verified.", { count: dataset.damaged_files ?? 0 })}
        </span>
      )}
    </li>
  );
}
