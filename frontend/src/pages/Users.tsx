import { Alert, Button, Modal, PasswordInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { changeUser, createUser } from "@/api/actions";
import { ApiProblem, messageOf } from "@/api/problem";
import { keys, meQuery, usersQuery } from "@/api/queries";
import type { NewUser, User } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import classes from "@/components/table.module.css";

export function UsersPage() {
  const query = useQuery(usersQuery);
  const [creating, setCreating] = useState(false);
  const users = query.data?.items;
  return (
    <>
      <PageTitle title="Users">
        {users && (
          <Button size="sm" leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="user-new">
            New user
          </Button>
        )}
      </PageTitle>
      <div className="card" style={{ overflow: "hidden" }}>
        {query.isPending && <TableSkeleton rows={4} />}
        {query.isError && !users && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {users && <UserTable users={users} />}
      </div>
      {creating && <NewUserModal onClose={() => setCreating(false)} />}
    </>
  );
}

function UserTable({ users }: { users: User[] }) {
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [asking, setAsking] = useState<User | null>(null);
  const change = useMutation({
    mutationFn: ({ name, disabled }: { name: string; disabled: boolean }) => changeUser(name, { disabled }),
    onError: (error) => notifyProblem("The account was not changed", error),
    onSettled: () => {
      setAsking(null);
      void cache.invalidateQueries({ queryKey: keys.users });
    },
  });
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Role</th>
            <th scope="col">Project</th>
            <th scope="col">Since</th>
            <th scope="col">Account</th>
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {users.map((user) => (
            <tr key={user.name} data-testid="user-row">
              <td className={classes.name}>
                <strong>{user.name}</strong>
                {user.display_name !== "" && user.display_name !== user.name && (
                  <Text span size="sm" c="dimmed" ml={8}>
                    {user.display_name}
                  </Text>
                )}
              </td>
              <td data-label="Role">{user.role === "admin" ? "Administrator" : "User"}</td>
              <td data-label="Project">{user.default_project}</td>
              <td data-label="Since">
                <RelativeTime at={user.created_at} />
              </td>
              <td data-label="Account">{user.disabled ? <span className={classes.dim}>disabled</span> : "active"}</td>
              <td className={classes.num}>
                {user.disabled ? (
                  <Button
                    variant="subtle"
                    size="compact-sm"
                    loading={change.isPending && change.variables.name === user.name}
                    onClick={() => change.mutate({ name: user.name, disabled: false })}
                  >
                    Enable
                  </Button>
                ) : (
                  user.name !== me.user.name && (
                    <Button variant="subtle" color="red" size="compact-sm" onClick={() => setAsking(user)} aria-label={`Disable ${user.name}`}>
                      Disable
                    </Button>
                  )
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm
        opened={asking !== null}
        title={`Disable ${asking?.name ?? "the account"}?`}
        action="Disable"
        keep="Keep it active"
        busy={change.isPending}
        onClose={() => setAsking(null)}
        onConfirm={() => {
          if (asking !== null) change.mutate({ name: asking.name, disabled: true });
        }}
      >
        {asking?.name} is logged out and can no longer log in; tokens stop working. Jobs that run go on.
      </Confirm>
    </div>
  );
}

function NewUserModal({ onClose }: { onClose: () => void }) {
  const cache = useQueryClient();
  const [form, setForm] = useState({ name: "", display_name: "", password: "", role: "user" as "user" | "admin" });
  const create = useMutation({
    mutationFn: (body: NewUser) => createUser(body),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: keys.users });
      onClose();
    },
  });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    create.mutate({
      name: form.name.trim(),
      display_name: form.display_name.trim(),
      role: form.role,
      ...(form.password === "" ? {} : { password: form.password }),
    });
  };
  const problems = create.error instanceof ApiProblem ? create.error.problems : [];
  const errorOf = (field: string) => problems.find((problem) => problem.field.replace(/^body\./, "") === field)?.message;
  const shown = ["name", "display_name", "password", "role"].some((field) => errorOf(field) !== undefined);
  return (
    <Modal opened onClose={onClose} title={<strong>New user</strong>}>
      <form onSubmit={submit}>
        <Stack gap="md">
          {create.error !== null && !shown && (
            <Alert color="red" role="alert">
              {messageOf(create.error)}
            </Alert>
          )}
          <TextInput
            label="User name"
            description="Lower-case letters, digits, - and _; it cannot be changed later."
            value={form.name}
            error={errorOf("name")}
            onChange={(event) => set({ name: event.currentTarget.value })}
            autoCapitalize="none"
            spellCheck={false}
            autoComplete="off"
            required
            data-autofocus
          />
          <TextInput
            label="Full name"
            value={form.display_name}
            error={errorOf("display_name")}
            onChange={(event) => set({ display_name: event.currentTarget.value })}
            autoComplete="off"
          />
          <PasswordInput
            label="Password"
            description="At least 8 characters. Empty: the user can log in by a one-time link or token only."
            value={form.password}
            error={errorOf("password")}
            onChange={(event) => set({ password: event.currentTarget.value })}
            autoComplete="new-password"
          />
          <Select
            label="Role"
            data={[
              { value: "user", label: "User" },
              { value: "admin", label: "Administrator" },
            ]}
            value={form.role}
            allowDeselect={false}
            onChange={(role) => set({ role: role === "admin" ? "admin" : "user" })}
          />
          <Button type="submit" loading={create.isPending} disabled={form.name.trim() === ""}>
            Create user
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
