import { Alert, Button, Group, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Plus, Search, SearchX, ShieldAlert, Users } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { accountsQuery } from "@/api/admin";
import { meQuery } from "@/api/queries";
import type { User } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { SharedAccountNote } from "@/components/SharedAccountNote";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import table from "@/components/table.module.css";
import { NewUserModal } from "@/pages/admin/NewUser";
import { UserDrawer } from "@/pages/admin/UserDrawer";
import classes from "./Admin.module.css";

export function AdminUsersPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const [text, setText] = useState("");
  const [searchText] = useDebouncedValue(text.trim(), 250);
  const query = useInfiniteQuery(accountsQuery(searchText));
  const [creating, setCreating] = useState(false);
  const [opened, setOpened] = useState<string | null>(null);
  const users = query.data?.pages.flatMap((page) => page.items) ?? [];
  const total = query.data?.pages[0]?.total;
  const user = users.find((each) => each.name === opened);
  return (
    <>
      <PageTitle title={t("Users")}>
        <Button size="sm" leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="user-new">
          {t("New user")}
        </Button>
      </PageTitle>
      <SharedAccountNote />
      {!me.platform.user_domains && total !== undefined && total > 1 && (
        <Alert color="orange" icon={<ShieldAlert size={18} />} mb="md" data-testid="users-shared-origin">
          {t("Sessions of all users share one origin: users of this platform must trust each other. Set `sessions_url` to https://*.HOST, which gives each user a domain.")}
        </Alert>
      )}
      <div className={classes.filters} role="search">
        <TextInput
          aria-label={t("Search users")}
          placeholder={t("Name or mail address")}
          leftSection={<Search size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          spellCheck={false}
          autoCapitalize="none"
          data-testid="user-search"
        />
        <Text size="sm" c="dimmed" role="status" my="auto">
          {total !== undefined && t("{{count}} accounts", { count: total })}
        </Text>
      </div>
      <QueryCard
        query={query}
        items={query.data && users}
        rows={4}
        empty={
          <EmptyState icon={searchText === "" ? Users : SearchX} title={searchText === "" ? t("No users") : t("No matching users")}>
            {t("The search covers user name, full name and mail address.")}
          </EmptyState>
        }
      >
        {(items) => <UserTable users={items} onOpen={setOpened} />}
      </QueryCard>
      {creating && <NewUserModal onClose={() => setCreating(false)} />}
      {user && <UserDrawer user={user} onClose={() => setOpened(null)} />}
    </>
  );
}

function UserTable({ users, onOpen }: { users: readonly User[]; onOpen: (name: string) => void }) {
  const { t } = useTranslation();
  return (
    <div className={table.wrap}>
      <table className={table.table}>
        <thead>
          <tr>
            <th scope="col">{t("Name")}</th>
            <th scope="col">{t("Role")}</th>
            <th scope="col">{t("Project")}</th>
            <th scope="col">{t("Created")}</th>
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
              </td>
              <td data-label={t("Role")}>{user.role === "admin" ? t("Administrator") : t("User")}</td>
              <td data-label={t("Project")}>{user.default_project}</td>
              <td data-label={t("Created")}>
                <RelativeTime at={user.created_at} />
              </td>
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
