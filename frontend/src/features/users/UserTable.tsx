import { Button, Checkbox, Group, Text, UnstyledButton } from "@mantine/core";
import { ChevronDown, ChevronUp } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { ListedUser, UserFilters } from "@/api/admin";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import table from "@/components/table.module.css";
import classes from "@/components/Admin.module.css";

interface Props {
  users: readonly ListedUser[];
  sort: UserFilters["sort"];
  descending: boolean;
  selected: ReadonlySet<string>;
  onSort: (sort: UserFilters["sort"], descending: boolean) => void;
  onSelect: (names: ReadonlySet<string>) => void;
  onOpen: (name: string) => void;
}

/** Accounts with selection and sortable columns. */
export function UserTable({ users, sort, descending, selected, onSort, onSelect, onOpen }: Props) {
  const { t } = useTranslation();
  const all = users.every((user) => selected.has(user.name));
  const toggle = (name: string) => {
    const next = new Set(selected);
    if (!next.delete(name)) next.add(name);
    onSelect(next);
  };
  const heading = (key: UserFilters["sort"], label: string) => {
    const current = sort === key;
    const Arrow = descending ? ChevronDown : ChevronUp;
    return (
      // Names begin with a, times with the latest.
      <UnstyledButton className={classes.sort ?? ""} fz="inherit" onClick={() => onSort(key, current ? !descending : key !== "name")} data-testid={`user-sort-${key}`}>
        {label}
        {current && <Arrow size={13} aria-hidden />}
      </UnstyledButton>
    );
  };
  const direction = (key: UserFilters["sort"]) => (sort !== key ? "none" : descending ? "descending" : "ascending");
  return (
    <div className={table.wrap}>
      <table className={table.table}>
        <thead>
          <tr>
            <th scope="col" aria-sort={direction("name")}>
              <Group gap={10} wrap="nowrap">
                <Checkbox
                  size="xs"
                  aria-label={t("Select all listed users")}
                  checked={all}
                  indeterminate={!all && selected.size > 0}
                  onChange={() => onSelect(all ? new Set() : new Set(users.map((user) => user.name)))}
                  data-testid="user-select-all"
                />
                {heading("name", t("Name"))}
              </Group>
            </th>
            <th scope="col">{t("Role")}</th>
            <th scope="col">{t("Project")}</th>
            <th scope="col" aria-sort={direction("created")}>{heading("created", t("Created"))}</th>
            <th scope="col" aria-sort={direction("last_login")}>{heading("last_login", t("Last login"))}</th>
            <th scope="col">{t("Status")}</th>
            <th scope="col">
              <span className="visually-hidden">{t("Actions")}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <tr key={user.name} data-testid="user-row">
              <td className={table.name}>
                <Group gap={10} wrap="nowrap" align="flex-start">
                  <Checkbox
                    size="xs"
                    mt={3}
                    aria-label={t("Select {{name}}", { name: user.name })}
                    checked={selected.has(user.name)}
                    onChange={() => toggle(user.name)}
                  />
                  <span className={classes.person}>
                    <strong>{user.name}</strong>
                    {user.display_name !== "" && user.display_name !== user.name && (
                      <Text span size="sm" c="dimmed" ml={8}>
                        {user.display_name}
                      </Text>
                    )}
                    {user.mail !== null && (
                      <Text size="xs" c="dimmed">
                        {user.mail}
                      </Text>
                    )}
                  </span>
                </Group>
              </td>
              <td data-label={t("Role")}>{user.role === "admin" ? t("Administrator") : t("User")}</td>
              <td data-label={t("Project")}>{user.default_project}</td>
              <td data-label={t("Created")}>
                <RelativeTime at={user.created_at} />
              </td>
              <td data-label={t("Last login")}>{user.last_login_at === null ? <span className={table.dim}>{t("never")}</span> : <RelativeTime at={user.last_login_at} />}</td>
              <td data-label={t("Status")}>
                <Group gap={6}>
                  <ToneBadge tone={user.disabled ? "neutral" : "good"}>{user.disabled ? t("disabled") : t("active")}</ToneBadge>
                  {user.source !== null && <span className={table.dim}>{user.source}</span>}
                </Group>
              </td>
              <td className={table.num}>
                <Button variant="subtle" size="compact-sm" onClick={() => onOpen(user.name)} aria-label={t("Manage {{name}}", { name: user.name })} data-testid="user-manage">
                  {t("Manage")}
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
