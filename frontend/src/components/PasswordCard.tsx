import { Button, Checkbox, Group, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Account, accountKeys, changePassword } from "@/api/account";
import { keys, tokensQuery } from "@/api/queries";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone } from "@/components/notify";
import { useWait } from "@/hooks/use-wait";
import { sourceWords } from "@/lib/sources";

/** One's own password, where the platform itself keeps it. */
export function PasswordCard({ account }: { account: Account }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [deleteTokens, setDeleteTokens] = useState(false);
  const tokens = useQuery(tokensQuery).data?.items ?? [];
  const save = useMutation({
    mutationFn: () => changePassword(password, account.has_password ? current : null, deleteTokens),
    onSuccess: () => {
      notifyDone(t("Your new password is set. All other sign-ins have ended."));
      setCurrent("");
      setPassword("");
      setAgain("");
      setDeleteTokens(false);
      void cache.invalidateQueries({ queryKey: keys.tokens });
      void cache.invalidateQueries({ queryKey: accountKeys.account });
      void cache.invalidateQueries({ queryKey: accountKeys.signIns });
    },
  });
  const wait = useWait(save.error);
  const differ = again !== "" && again !== password;
  const ready = password.length >= 12 && again === password && (current !== "" || !account.has_password);
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
          {t("You log in with {{source}}; your password is changed there.", { source: sourceWords(account.source) })}
        </Text>
      ) : (
        <form onSubmit={submit}>
          <Stack gap="md">
            <Text size="sm" c="dimmed">
              {account.has_password
                ? t("A new password ends all other sign-ins.")
                : t("You have no password yet: you came by a link. Set one to log in by your name.")}
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
              description={t("At least 12 characters; a short sentence is good.")}
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              autoComplete="new-password"
              data-testid="password-new"
            />
            <PasswordInput
              label={t("Once more")}
              value={again}
              onChange={(event) => setAgain(event.currentTarget.value)}
              error={differ ? t("The two are not the same.") : undefined}
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
              <Button type="submit" loading={save.isPending} disabled={!ready || wait > 0} data-testid="password-save">
                {t("Set the password")}
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </section>
  );
}
