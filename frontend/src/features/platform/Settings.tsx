import { Switch, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Search, SearchX } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { type Setting, settingsQuery } from "@/api/admin";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { ServerText } from "@/components/ServerText";
import type { Column } from "@/components/table";
import { msg } from "@/i18n/msg";
import { translateServerText } from "@/i18n/server";
import { known } from "@/lib/known";
import { settingText } from "./setting-text";
import table from "@/components/table.module.css";
import classes from "@/components/Admin.module.css";

const SOURCES: Record<Setting["source"], string> = {
  default: msg("default"),
  file: msg("file"),
  environment: msg("environment variable"),
  command_line: msg("command line"),
  found: msg("detected on this machine"),
};

/** All settings with their sources. They are read-only here and changed in aitne.toml. */
export function SettingsPage() {
  const { t } = useTranslation();
  const query = useQuery(settingsQuery);
  const [text, setText] = useState("");
  const [all, setAll] = useState(false);
  const searchText = text.trim().toLowerCase();
  const matching = query.data?.filter(
    (each) => (all || searchText !== "" || each.source !== "default") && `${each.name} ${translateServerText(each.description).text}`.toLowerCase().includes(searchText),
  );
  const columns: Column<Setting>[] = [
    {
      header: t("Setting"),
      className: table.name,
      cell: ({ name, description }) => (
        <>
          <span className="mono">{name}</span>
          <Text size="xs" c="dimmed">
            <ServerText>{description}</ServerText>
          </Text>
        </>
      ),
    },
    { header: t("Value"), cell: (each) => <span className={classes.value}>{settingText(each) ?? t("not set")}</span> },
    {
      header: t("Source"),
      cell: ({ source, location }) => (
        <div>
          {t(known(SOURCES, source, source))}
          {location !== null && (
            <Text size="xs" c="dimmed" className={classes.value}>
              {location}
            </Text>
          )}
        </div>
      ),
    },
  ];
  return (
    <>
      <PageTitle title={t("Settings")} />
      <Text size="sm" c="dimmed" mb="md">
        {t("Read at startup from aitne.toml, then AITNE_ variables, then the command line. Secrets are masked.")}
      </Text>
      <div className={classes.filters} role="search">
        <TextInput aria-label={t("Search settings")} placeholder={t("Search settings")} leftSection={<Search size={16} />} value={text} onChange={(event) => setText(event.currentTarget.value)} />
        <Switch label={t("Show settings with default values")} checked={all} onChange={(event) => setAll(event.currentTarget.checked)} my="auto" />
      </div>
      <QueryCard
        query={query}
        items={matching}
        empty={
          <EmptyState icon={SearchX} title={searchText === "" ? t("All settings have default values") : t("No matching settings")}>
            {searchText === "" ? t("No setting differs from its default.") : t("No setting name or description contains the search text.")}
          </EmptyState>
        }
      >
        {(settings) => <DataTable columns={columns} rows={settings} rowKey={({ name }) => name} rowTestId="setting-row" />}
      </QueryCard>
    </>
  );
}
