import { Button, PasswordInput, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { accountQuery, reauthenticateWith } from "@/api/account";
import { CodeField } from "@/components/CodeField";
import { FormModal } from "@/components/FormModal";
import { useLogout } from "@/shell/use-logout";

type Proof = "password" | "code" | "login";

/** Takes the password or a code; the portal loads it when it is needed. */
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
        <Text size="sm">{t("This change needs a recent login. Log out, then log in again the way you came.")}</Text>
        <Button variant="default" onClick={onClose}>
          {t("Cancel")}
        </Button>
      </FormModal>
    );
  }
  return (
    <FormModal
      title={t("Confirm that it is you")}
      action={t("Confirm")}
      testId="reauthenticate"
      size="sm"
      busy={confirm.isPending}
      disabled={value === ""}
      error={confirm.error}
      onClose={onClose}
      onSubmit={() => confirm.mutate()}
    >
      <Text size="sm">{t("This changes how your account is reached, and you logged in a while ago.")}</Text>
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

/** What the account can be proved by; providers that the browser is sent to have no form here. */
function proofOf(account: { has_password: boolean; source: string; second_factor: { enabled: boolean } } | undefined): Proof {
  if (account === undefined || account.has_password || ["ldap", "pam"].includes(account.source)) return "password";
  return account.second_factor.enabled ? "code" : "login";
}
