import { Checkbox, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { keys, tokensQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone } from "@/components/notify";
import { type Account, accountKeys, changePassword } from "./account";
import { sourceName } from "@/lib/sources";
import { useWait } from "./use-wait";

/** Changes the user's password where the platform stores it. */
export function PasswordCard({ account }: { account: Account }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const [confirmation, setConfirmation] = useState("");
  const [deleteTokens, setDeleteTokens] = useState(false);
  const tokens = useQuery(tokensQuery).data?.items ?? [];
  const save = useMutation({
    mutationFn: () => changePassword(password, account.has_password ? current : null, deleteTokens),
    onSuccess: () => {
      notifyDone(t("Password changed. All other logins were ended."));
      setCurrent("");
      setPassword("");
      setConfirmation("");
      setDeleteTokens(false);
      void cache.invalidateQueries({ queryKey: keys.tokens });
      void cache.invalidateQueries({ queryKey: accountKeys.account });
      void cache.invalidateQueries({ queryKey: accountKeys.signIns });
    },
  });
  const wait = useWait(save.error);
  const mismatch = confirmation !== "" && confirmation !== password;
  const ready = password.length >= 12 && confirmation === password && (current !== "" || !account.has_password);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (ready) save.mutate();
  };
  return (
    <section className="card" style={{ padding: 20 }}>
      <Title order={2} size="h5" mb={4}>
        {t("Password")}
      </Title>
      {account.source !== "password" ? (
        <Text size="sm" c="dimmed">
          {t("You log in with {{source}}. Change your password there.", { source: sourceName(account.source) })}
        </Text>
      ) : (
        <form onSubmit={submit}>
          <Stack gap="md">
            <Text size="sm" c="dimmed">
              {account.has_password
                ? t("Changing the password ends all other logins.")
                : t("You logged in with a one-time link. Set a password.")}
            </Text>
            <FormProblem error={save.error} wait={wait} id="password-error" />
            {account.has_password && (
              <PasswordInput
                label={t("Current password")}
                value={current}
                onChange={(event) => setCurrent(event.currentTarget.value)}
                autoComplete="current-password"
                data-testid="password-current"
              />
            )}
            <PasswordInput
              label={t("New password")}
              description={t("At least 12 characters. A passphrase is recommended.")}
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              autoComplete="new-password"
              data-testid="password-new"
            />
            <PasswordInput
              label={t("Confirm password")}
              value={confirmation}
              onChange={(event) => setConfirmation(event.currentTarget.value)}
              error={mismatch ? t("Passwords do not match.") : undefined}
              autoComplete="new-password"
              data-testid="password-again"
            />
            {tokens.length > 0 && (
              <Checkbox
                label={t("Also delete all tokens")}
                description={tokens.map((token) => token.name).join(", ")}
                checked={deleteTokens}
                onChange={(event) => setDeleteTokens(event.currentTarget.checked)}
                data-testid="password-delete-tokens"
              />
            )}
            <Group>
              <ChangeButton type="submit" loading={save.isPending} disabled={!ready || wait > 0} data-testid="password-save">
                {t("Set password")}
              </ChangeButton>
            </Group>
          </Stack>
        </form>
      )}
    </section>
  );
}
