import { PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { CommandLine } from "@/components/CommandLine";
import { FormDialog } from "@/components/FormDialog";
import { useLogout } from "@/hooks/use-logout";
import { accountQuery, reauthenticateWith } from "./account";
import { CodeField } from "./CodeField";
import { proofOf } from "./proof-of-identity";

/** Form for the password, a code or a login link; loaded on demand. */
export function ReauthenticationForm({ onConfirmed, onClose }: { onConfirmed: () => void; onClose: () => void }) {
  const { t } = useTranslation();
  const account = useQuery(accountQuery).data;
  const logout = useLogout();
  const [value, setValue] = useState("");
  const proof = proofOf(account);
  const confirm = useMutation({
    mutationFn: () => reauthenticateWith(proof === "code" ? { code: value } : proof === "link" ? { link: value } : { password: value }),
    onSuccess: onConfirmed,
  });
  if (proof === "login") {
    return (
      <FormDialog title={t("Log in again")} action={t("Log out")} busy={false} error={null} cancels onClose={onClose} onSubmit={() => void logout()}>
        <Text size="sm">{t("This change requires a recent login. Log out and log in again.")}</Text>
      </FormDialog>
    );
  }
  if (proof === "none") {
    return (
      <FormDialog title={t("Set a password first")} action={t("Close")} busy={false} error={null} onClose={onClose} onSubmit={onClose}>
        <Text size="sm">
          {t("You were logged in by a link, and your account has no password with which to confirm this change. Ask an administrator for a link that sets one.")}
        </Text>
        <Stack gap={4}>
          <Text size="sm" c="dimmed">{t("The administrator's command:")}</Text>
          <CommandLine command={`aitne admin user reset-link ${account?.name ?? ""}`} />
        </Stack>
      </FormDialog>
    );
  }
  return (
    <FormDialog
      title={t("Confirm your identity")}
      action={t("Confirm")}
      testId="reauthenticate"
      size="sm"
      busy={confirm.isPending}
      disabled={value.trim() === ""}
      error={confirm.error}
      onClose={onClose}
      onSubmit={() => confirm.mutate()}
    >
      <Text size="sm">{t("This change affects the security of your account. Confirm your identity to continue.")}</Text>
      {proof === "code" && <CodeField value={value} onChange={setValue} />}
      {proof === "password" && (
        <PasswordInput
          label={t("Password")}
          value={value}
          onChange={(event) => setValue(event.currentTarget.value)}
          autoComplete="current-password"
          data-autofocus
          data-testid="reauthenticate-password"
        />
      )}
      {proof === "link" && (
        <>
          <Stack gap={4}>
            <Text size="sm">{t("Your account has no password. Print a new login link on the platform's machine:")}</Text>
            <CommandLine command="aitne open --print" />
          </Stack>
          <TextInput
            label={t("Login link")}
            description={t("Paste it here instead of opening it. It works once.")}
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
            autoComplete="off"
            spellCheck={false}
            data-autofocus
            data-testid="reauthenticate-link"
          />
        </>
      )}
    </FormDialog>
  );
}
