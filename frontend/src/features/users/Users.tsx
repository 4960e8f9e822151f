import { Alert, Select, Text, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Plus, Search, SearchX, ShieldAlert, Users } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { accountsQuery, type UserFilters } from "@/api/admin";
import { meQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { CodeText } from "@/components/CodeText";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { SharedAccountNote } from "@/components/SharedAccountNote";
import { withSelected } from "@/components/table";
import { NewUserModal } from "./NewUser";
import { UserDrawer } from "./UserDrawer";
import { UserSelection } from "./UserSelection";
import { UserTable } from "./UserTable";
import classes from "@/components/Admin.module.css";

export function AdminUsersPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const [filters, setFilters] = useState<UserFilters>({ q: "", role: null, disabled: null, sort: "name", descending: false });
  const [q] = useDebouncedValue(filters.q.trim(), 250);
  const query = useInfiniteQuery(accountsQuery({ ...filters, q }));
  const set = (change: Partial<UserFilters>) => setFilters((old) => ({ ...old, ...change }));
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [creating, setCreating] = useState(false);
  const [opened, setOpened] = useState<string | null>(null);
  const users = query.data?.pages.flatMap((page) => page.items) ?? [];
  const total = query.data?.pages[0]?.total;
  const user = users.find((each) => each.name === opened);
  // Only users that are listed can be changed.
  const chosen = users.map((each) => each.name).filter((name) => selected.has(name));
  const filtered = q !== "" || filters.role !== null || filters.disabled !== null;
  return (
    <>
      <PageTitle title={t("Users")}>
        <ChangeButton size="sm" leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="user-new">
          {t("New user")}
        </ChangeButton>
      </PageTitle>
      <SharedAccountNote />
      {!me.platform.user_domains && total !== undefined && total > 1 && (
        <Alert color="orange" icon={<ShieldAlert size={18} />} mb="md" data-testid="users-shared-origin">
          <CodeText>{t("Sessions of all users share one origin: users of this platform must trust each other. Set `sessions_url` to https://*.HOST, which gives each user a domain.")}</CodeText>
        </Alert>
      )}
      <div className={classes.filters} role="search">
        <TextInput
          className={classes.search ?? ""}
          aria-label={t("Search users")}
          placeholder={t("Name or mail address")}
          leftSection={<Search size={16} />}
          value={filters.q}
          onChange={(event) => set({ q: event.currentTarget.value })}
          spellCheck={false}
          autoCapitalize="none"
          data-testid="user-search"
        />
        <Select
          aria-label={t("Role")}
          placeholder={t("Any role")}
          data={[
            { value: "user", label: t("User") },
            { value: "admin", label: t("Administrator") },
          ]}
          value={filters.role}
          clearable
          onChange={(role) => set({ role })}
          data-testid="user-role"
        />
        <Select
          aria-label={t("Status")}
          placeholder={t("Any status")}
          data={[
            { value: "active", label: t("active") },
            { value: "disabled", label: t("disabled") },
          ]}
          value={filters.disabled === null ? null : filters.disabled ? "disabled" : "active"}
          clearable
          onChange={(status) => set({ disabled: status === null ? null : status === "disabled" })}
          data-testid="user-status"
        />
        <Text size="sm" c="dimmed" role="status" my="auto">
          {total !== undefined && t("{{count}} accounts", { count: total })}
        </Text>
      </div>
      {chosen.length > 0 && <UserSelection names={chosen} onSelect={setSelected} />}
      <QueryCard
        query={query}
        items={query.data && users}
        rows={4}
        empty={
          <EmptyState icon={filtered ? SearchX : Users} title={filtered ? t("No matching users") : t("No users")}>
            {t("The search covers user name, full name and mail address.")}
          </EmptyState>
        }
      >
        {(items) => (
          <UserTable
            users={items}
            sorting={{ by: filters.sort, descending: filters.descending, onSort: (sort, descending) => set({ sort, descending }), testId: "user-sort" }}
            selected={selected}
            onSelect={(names, on) => setSelected((old) => withSelected(old, names, on))}
            onOpen={setOpened}
          />
        )}
      </QueryCard>
      {creating && <NewUserModal onClose={() => setCreating(false)} />}
      {user && <UserDrawer user={user} onClose={() => setOpened(null)} />}
    </>
  );
}
