import { Button, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ListedUser, UserFilters } from "@/api/admin";
import { DataTable } from "@/components/DataTable";
import type { Column, Sorting } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import table from "@/components/table.module.css";
import classes from "@/components/Admin.module.css";

interface Props {
  users: readonly ListedUser[];
  sorting: Sorting<UserFilters["sort"]>;
  selected: ReadonlySet<string>;
  onSelect: (names: readonly string[], selected: boolean) => void;
  onOpen: (name: string) => void;
}

/** Accounts with selection and sortable columns. */
export function UserTable({ users, sorting, selected, onSelect, onOpen }: Props) {
  const { t } = useTranslation();
  const columns: Column<ListedUser, UserFilters["sort"]>[] = [
    {
      header: t("Name"),
      sort: "name",
      className: table.name,
      cell: ({ name, display_name, mail }) => (
        <span className={classes.person}>
          <strong>{name}</strong>
          {display_name !== "" && display_name !== name && (
            <Text span size="sm" c="dimmed" ml={8}>
              {display_name}
            </Text>
          )}
          {mail !== null && (
            <Text size="xs" c="dimmed">
              {mail}
            </Text>
          )}
        </span>
      ),
    },
    { header: t("Role"), cell: ({ role }) => (role === "admin" ? t("Administrator") : t("User")) },
    { header: t("Project"), cell: ({ default_project }) => default_project },
    { header: t("Created"), sort: "created", descendingFirst: true, cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    {
      header: t("Last login"),
      sort: "last_login",
      descendingFirst: true,
      cell: ({ last_login_at }) => (last_login_at === null ? <span className={table.dim}>{t("never")}</span> : <RelativeTime at={last_login_at} />),
    },
    {
      header: t("Status"),
      cell: ({ disabled, source }) => (
        <Group gap={6}>
          <ToneBadge tone={disabled ? "neutral" : "good"}>{disabled ? t("disabled") : t("active")}</ToneBadge>
          {source !== null && <span className={table.dim}>{source}</span>}
        </Group>
      ),
    },
  ];
  return (
    <DataTable
      columns={columns}
      rows={users}
      rowKey={({ name }) => name}
      rowTestId="user-row"
      sorting={sorting}
      selection={{
        selected,
        onSelect,
        allLabel: t("Select all listed users"),
        labelOf: ({ name }) => t("Select {{name}}", { name }),
        testId: "user-select-all",
      }}
      actions={({ name }) => (
        <Button variant="subtle" size="compact-sm" onClick={() => onOpen(name)} aria-label={t("Manage {{name}}", { name })} data-testid="user-manage">
          {t("Manage")}
        </Button>
      )}
    />
  );
}
