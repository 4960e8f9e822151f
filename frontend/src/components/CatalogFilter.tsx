import { Switch, TextInput } from "@mantine/core";
import { Search } from "lucide-react";
import { useTranslation } from "react-i18next";
import classes from "@/components/Catalog.module.css";

interface Props {
  text: string;
  onText: (text: string) => void;
  /** Null if there are no retired entries. */
  retired: boolean | null;
  onRetired: (retired: boolean) => void;
  count: string;
}

/** The search field, and a switch that includes retired entries. */
export function CatalogFilter({ text, onText, retired, onRetired, count }: Props) {
  const { t } = useTranslation();
  return (
    <div className={classes.filters} role="search">
      <TextInput
        className={classes.search}
        aria-label={t("Search")}
        placeholder={t("Search")}
        leftSection={<Search size={16} />}
        type="search"
        value={text}
        onChange={(event) => onText(event.currentTarget.value)}
        data-testid="catalog-search"
      />
      {retired !== null && (
        <Switch label={t("Show retired")} checked={retired} onChange={(event) => onRetired(event.currentTarget.checked)} data-testid="catalog-retired" />
      )}
      <span role="status" className={`${classes.count ?? ""} tabular`}>
        {count}
      </span>
    </div>
  );
}
