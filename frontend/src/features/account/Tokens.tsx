import { Alert, Button, Checkbox, Code, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { KeyRound, Plus } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { createToken, revokeToken } from "@/api/actions";
import { ApiProblem, messageOf } from "@/api/problem";
import { keys, meQuery, tokensQuery } from "@/api/queries";
import type { NewToken, Token } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { CodeText } from "@/components/CodeText";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { EmptyState } from "@/components/EmptyState";
import { Modal } from "@/components/Modal";
import { notifyDone, notifyProblem } from "@/components/notify";
import { QueryCard } from "@/components/QueryCard";
import { msg } from "@/i18n/msg";
import { RelativeTime } from "@/components/Time";
import classes from "@/components/table.module.css";

export function TokensPage() {
  const { t } = useTranslation();
  const query = useQuery(tokensQuery);
  const [creating, setCreating] = useState(false);
  return (
    <>
      <Group justify="space-between" align="flex-start" mb="md">
        <Text size="sm" c="dimmed" maw={560}>
          {t("Scripts and the command line use access tokens to act on your behalf. Create one token per use so that each can be revoked separately.")}
        </Text>
        <ChangeButton size="sm" leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="token-new">
          {t("New token")}
        </ChangeButton>
      </Group>
      <QueryCard
        query={query}
        items={query.data?.items}
        rows={3}
        empty={
          <EmptyState icon={KeyRound} title={t("No tokens")}>
            <Trans
              i18nKey="For the command line, create a token and set <code>AITNE_TOKEN</code> and <code>AITNE_URL</code>."
              components={{ code: <code /> }}
            />
          </EmptyState>
        }
      >
        {(tokens) => <TokenTable tokens={tokens} />}
      </QueryCard>
      <NewTokenModal opened={creating} onClose={() => setCreating(false)} />
    </>
  );
}

function TokenTable({ tokens }: { tokens: readonly Token[] }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [revoking, setRevoking] = useState<Token | null>(null);
  const revoke = useMutation({
    mutationFn: (token: Token) => revokeToken(token.id),
    onSuccess: () => notifyDone(t("Token revoked.")),
    onError: (error) => notifyProblem(t("Could not revoke the token"), error),
    onSettled: () => {
      setRevoking(null);
      void cache.invalidateQueries({ queryKey: keys.tokens });
    },
  });
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{t("Name")}</th>
            <th scope="col">{t("Scopes")}</th>
            <th scope="col">{t("Created")}</th>
            <th scope="col">{t("Last used")}</th>
            <th scope="col">{t("Expires")}</th>
            <th scope="col">
              <span className="visually-hidden">{t("Actions")}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id} data-testid="token-row">
              <td className={classes.name}>
                <strong>{token.name}</strong>
                {token.created_by !== null && (
                  <Text size="xs" c="dimmed">
                    {t("Created by {{name}}.", { name: token.created_by })}
                  </Text>
                )}
              </td>
              <td data-label={t("Scopes")}>{[...token.scopes].sort().map((scope) => t(SCOPES[scope])).join(", ")}</td>
              <td data-label={t("Created")}>
                <RelativeTime at={token.created_at} />
              </td>
              <td data-label={t("Last used")}>
                {token.last_used_at === null ? <span className={classes.dim}>{t("never")}</span> : <RelativeTime at={token.last_used_at} />}
              </td>
              <td data-label={t("Expires")}>
                {token.expires_at === null ? <span className={classes.dim}>{t("never")}</span> : <RelativeTime at={token.expires_at} />}
              </td>
              <td className={classes.num}>
                <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setRevoking(token)} aria-label={t("Revoke {{name}}", { name: token.name })}>
                  {t("Revoke")}
                </ChangeButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm
        opened={revoking !== null}
        title={t("Revoke {{name}}?", { name: revoking?.name ?? "" })}
        action={t("Revoke")}
        busy={revoke.isPending}
        onClose={() => setRevoking(null)}
        onConfirm={() => {
          if (revoking !== null) revoke.mutate(revoking);
        }}
      >
        {t("Clients that use this token lose access immediately. This cannot be undone.")}
      </Confirm>
    </div>
  );
}

const SCOPES = { read: msg("read"), write: msg("write"), admin: msg("admin") } as const;

const LIFETIMES = [
  { value: "7d", label: msg("7 days") },
  { value: "30d", label: msg("30 days") },
  { value: "90d", label: msg("90 days") },
  { value: "365d", label: msg("1 year") },
  { value: "never", label: msg("Never") },
];

function NewTokenModal({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "write"]);
  const [lifetime, setLifetime] = useState("30d");
  const create = useMutation({
    mutationFn: (body: NewToken) => createToken(body),
    onSuccess: () => void cache.invalidateQueries({ queryKey: keys.tokens }),
  });
  const close = () => {
    onClose();
    create.reset();
    setName("");
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    create.mutate({
      name: name.trim(),
      scopes: scopes as NewToken["scopes"],
      expires_in: lifetime === "never" ? null : lifetime,
    });
  };
  const problems = create.error instanceof ApiProblem ? create.error.problems : [];
  const nameProblem = problems.find((problem) => problem.field.endsWith("name"))?.message;
  return (
    <Modal opened={opened} onClose={close} title={<strong>{t("New access token")}</strong>} closeOnClickOutside={create.data === undefined}>
      {create.data ? (
        <Stack gap="md">
          <Alert color="moon" title={t("Copy the token now")}>
            {t("The token is shown only once. Only its hash is stored.")}
          </Alert>
          <Group wrap="nowrap" gap="xs">
            <Code block style={{ flex: 1, background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="token-secret">
              {create.data.token}
            </Code>
            <CopyButton what={t("the token")} text={create.data.token} />
          </Group>
          <Button onClick={close}>{t("Done")}</Button>
        </Stack>
      ) : (
        <form onSubmit={submit}>
          <Stack gap="md">
            {create.error !== null && nameProblem === undefined && (
              <Alert color="red" role="alert">
                <CodeText>{messageOf(create.error)}</CodeText>
              </Alert>
            )}
            <TextInput
              label={t("Name")}
              placeholder={t("Laptop")}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={nameProblem}
              maxLength={100}
              required
              data-autofocus
              data-testid="token-name"
            />
            <Checkbox.Group label={t("Scopes")} value={scopes} onChange={setScopes}>
              <Stack gap={8} mt={8}>
                <Checkbox value="read" label={t("Read: view jobs, logs and nodes")} />
                <Checkbox value="write" label={t("Write: launch, stop and change")} />
                {me.user.role === "admin" && <Checkbox value="admin" label={t("Admin: manage jobs and accounts of other users")} />}
              </Stack>
            </Checkbox.Group>
            <Select label={t("Expiration")} data={LIFETIMES.map(({ value, label }) => ({ value, label: t(label) }))} value={lifetime} onChange={(value) => setLifetime(value ?? "30d")} allowDeselect={false} />
            <ChangeButton type="submit" loading={create.isPending} disabled={name.trim() === "" || scopes.length === 0} data-testid="token-create">
              {t("Create token")}
            </ChangeButton>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
