import { PasswordInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createUser } from "@/api/actions";
import { keys, meQuery } from "@/api/queries";
import type { NewUser } from "@/api/types";
import { FormDialog } from "@/components/FormDialog";
import { SharedAccountNote } from "@/components/SharedAccountNote";
import { useProblems } from "@/hooks/use-problems";

export function NewUserModal({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const unixAccounts = useQuery(meQuery).data?.platform.unix_accounts ?? false;
  const [form, setForm] = useState({ name: "", display_name: "", mail: "", password: "", role: "user" as "user" | "admin" });
  const create = useMutation({
    mutationFn: (body: NewUser) => createUser(body),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: keys.users });
      onClose();
    },
  });
  const set = (change: Partial<typeof form>) => setForm((old) => ({ ...old, ...change }));
  const { errorOf, hasOtherErrors } = useProblems(create.error, ["name", "display_name", "mail", "password", "role"]);
  const submit = () =>
    create.mutate({
      name: form.name.trim(),
      display_name: form.display_name.trim(),
      role: form.role,
      ...(form.mail.trim() === "" ? {} : { mail: form.mail.trim() }),
      ...(form.password === "" ? {} : { password: form.password }),
    });
  return (
    <FormDialog
      title={t("New user")}
      action={t("Create user")}
      busy={create.isPending}
      disabled={form.name.trim() === ""}
      error={hasOtherErrors ? create.error : null}
      onClose={onClose}
      onSubmit={submit}
    >
      <SharedAccountNote />
      <TextInput
        label={t("User name")}
        description={[
          t("Letters, digits and . _ - @. Cannot be changed later."),
          ...(unixAccounts ? [t("Jobs run as the Unix account of this name; without one the user cannot start any.")] : []),
        ].join(" ")}
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
        label={t("Full name")}
        value={form.display_name}
        error={errorOf("display_name")}
        onChange={(event) => set({ display_name: event.currentTarget.value })}
        autoComplete="off"
      />
      <TextInput
        type="email"
        label={t("Mail address")}
        description={t("For notifications. The user can change it.")}
        value={form.mail}
        error={errorOf("mail")}
        onChange={(event) => set({ mail: event.currentTarget.value })}
        autoComplete="off"
        data-testid="user-mail"
      />
      <PasswordInput
        label={t("Password")}
        description={t("At least 12 characters. Leave blank if the user sets a password with a reset link or uses tokens only.")}
        value={form.password}
        error={errorOf("password")}
        onChange={(event) => set({ password: event.currentTarget.value })}
        autoComplete="new-password"
      />
      <Select
        label={t("Role")}
        data={[
          { value: "user", label: t("User") },
          { value: "admin", label: t("Administrator") },
        ]}
        value={form.role}
        allowDeselect={false}
        onChange={(role) => set({ role: role === "admin" ? "admin" : "user" })}
      />
    </FormDialog>
  );
}
