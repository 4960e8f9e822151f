import { Group, Skeleton, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { keys } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import { type Account, accountKeys, accountQuery, changeProfile } from "./account";
import { sourceName } from "@/lib/sources";
import classes from "./Account.module.css";

export function ProfilePage() {
  const query = useQuery(accountQuery);
  if (query.isPending) return <Skeleton h={320} maw={720} radius="md" />;
  if (query.data === undefined) return <PageError error={query.error} onRetry={() => query.refetch()} />;
  return <Profile account={query.data} />;
}

function Profile({ account }: { account: Account }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const own = account.source === "password";
  const [displayName, setDisplayName] = useState(account.display_name);
  const save = useMutation({
    mutationFn: () => changeProfile(account.name, { display_name: displayName.trim() }),
    onSuccess: () => {
      notifyDone(t("Profile saved."));
      void cache.invalidateQueries({ queryKey: accountKeys.account });
      void cache.invalidateQueries({ queryKey: keys.me });
    },
  });
  const changed = displayName.trim() !== account.display_name;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <div className={classes.cards}>
      <section className={`card ${classes.card ?? ""}`}>
        <form onSubmit={submit}>
          <Stack gap="md">
            <FormProblem error={save.error} />
            <TextInput
              label={t("Full name")}
              value={displayName}
              onChange={(event) => setDisplayName(event.currentTarget.value)}
              maxLength={200}
              autoComplete="name"
              disabled={!own}
              data-testid="profile-name"
            />
            {own ? (
              <Group>
                <ChangeButton type="submit" loading={save.isPending} disabled={!changed} data-testid="profile-save">
                  {t("Save")}
                </ChangeButton>
              </Group>
            ) : (
              <Text size="sm" c="dimmed">
                {t("Updated at every login from: {{source}}.", { source: sourceName(account.source) })}
              </Text>
            )}
          </Stack>
        </form>
      </section>
      <section className={`card ${classes.card ?? ""}`}>
        <dl className={classes.facts}>
          <dt>{t("User name")}</dt>
          <dd>{account.name}</dd>
          <dt>{t("Mail address")}</dt>
          <dd>{account.mail ?? t("not set")}</dd>
          <dt>{t("Role")}</dt>
          <dd>{t(account.role === "admin" ? "Administrator" : "User")}</dd>
          <dt>{t("Default project")}</dt>
          <dd>{account.default_project}</dd>
          <dt>{t("Login method")}</dt>
          <dd>{sourceName(account.source)}</dd>
          <dt>{t("Account created")}</dt>
          <dd>
            <RelativeTime at={account.created_at} />
          </dd>
        </dl>
      </section>
    </div>
  );
}
