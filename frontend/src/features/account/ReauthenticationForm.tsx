import { Button, PasswordInput, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { FormModal } from "@/components/FormModal";
import { useLogout } from "@/hooks/use-logout";
import { accountQuery, reauthenticateWith } from "./account";
import { CodeField } from "./CodeField";

type Proof = "password" | "code" | "login";

/** Form for the password or a code; loaded on demand. */
export function ReauthenticationForm({ onConfirmed, onClose }: { onConfirmed: () => void; onClose: () => void }) {
  const { t } = useTranslation();
  const account = useQuery(accountQuery).data;
  const logout = useLogout();
  const [value, setValue] = useState("");
  const proof = proofOf(account);
  const confirm = useMutation({
    mutationFn: () => reauthenticateWith(proof === "code" ? { code: value } : { password: value }),
    onSuccess: onConfirmed,
  });
  if (proof === "login") {
    return (
      <FormModal title={t("Log in again")} action={t("Log out")} busy={false} error={null} onClose={onClose} onSubmit={() => void logout()}>
        <Text size="sm">{t("This change requires a recent login. Log out and log in again.")}</Text>
        <Button variant="default" onClick={onClose}>
          {t("Cancel")}
        </Button>
      </FormModal>
    );
  }
  return (
    <FormModal
      title={t("Confirm your identity")}
      action={t("Confirm")}
      testId="reauthenticate"
      size="sm"
      busy={confirm.isPending}
      disabled={value === ""}
      error={confirm.error}
      onClose={onClose}
      onSubmit={() => confirm.mutate()}
    >
      <Text size="sm">{t("This change affects the security of your account. Confirm your identity to continue.")}</Text>
      {proof === "code" ? (
        <CodeField value={value} onChange={setValue} />
      ) : (
        <PasswordInput
          label={t("Password")}
          value={value}
          onChange={(event) => setValue(event.currentTarget.value)}
          autoComplete="current-password"
          data-autofocus
          data-testid="reauthenticate-password"
        />
      )}
    </FormModal>
  );
}

/** How the account can be confirmed; identity providers with a redirect require a new login. */
function proofOf(account: { has_password: boolean; source: string; second_factor: { enabled: boolean } } | undefined): Proof {
  if (account === undefined || account.has_password || ["ldap", "pam"].includes(account.source)) return "password";
  return account.second_factor.enabled ? "code" : "login";
}
