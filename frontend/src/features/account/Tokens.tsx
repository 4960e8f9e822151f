import { Alert, Button, Checkbox, Code, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { KeyRound, Plus } from "lucide-react";
import { useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { createToken, revokeToken } from "@/api/actions";
import { ApiProblem } from "@/api/problem";
import { keys, meQuery, tokensQuery } from "@/api/queries";
import type { NewToken, Token } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { QueryCard } from "@/components/QueryCard";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { msg } from "@/i18n/msg";
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
      {creating && <NewTokenModal onClose={() => setCreating(false)} />}
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
  const columns: Column<Token>[] = [
    {
      header: t("Name"),
      className: classes.name,
      cell: ({ name, created_by }) => (
        <>
          <strong>{name}</strong>
          {created_by !== null && (
            <Text size="xs" c="dimmed">
              {t("Created by {{name}}.", { name: created_by })}
            </Text>
          )}
        </>
      ),
    },
    { header: t("Scopes"), cell: ({ scopes }) => [...scopes].sort().map((scope) => t(SCOPES[scope])).join(", ") },
    { header: t("Created"), cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    { header: t("Last used"), cell: ({ last_used_at }) => <TimeOrNever at={last_used_at} /> },
    { header: t("Expires"), cell: ({ expires_at }) => <TimeOrNever at={expires_at} /> },
  ];
  return (
    <>
      <DataTable
        columns={columns}
        rows={tokens}
        rowKey={({ id }) => id}
        rowTestId="token-row"
        actions={(token) => (
          <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setRevoking(token)} aria-label={t("Revoke {{name}}", { name: token.name })}>
            {t("Revoke")}
          </ChangeButton>
        )}
      />
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
    </>
  );
}

function TimeOrNever({ at }: { at: string | null }) {
  const { t } = useTranslation();
  return at === null ? <span className={classes.dim}>{t("never")}</span> : <RelativeTime at={at} />;
}

const SCOPES = { read: msg("read"), write: msg("write"), admin: msg("admin") } as const;

const LIFETIMES = [
  { value: "7d", label: msg("7 days") },
  { value: "30d", label: msg("30 days") },
  { value: "90d", label: msg("90 days") },
  { value: "365d", label: msg("1 year") },
  { value: "never", label: msg("Never") },
];

function NewTokenModal({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "write"]);
  const [lifetime, setLifetime] = useState("30d");
  const create = useMutation({
    mutationFn: () => createToken({ name: name.trim(), scopes: scopes as NewToken["scopes"], expires_in: lifetime === "never" ? null : lifetime }),
    onSuccess: () => void cache.invalidateQueries({ queryKey: keys.tokens }),
  });
  const problems = create.error instanceof ApiProblem ? create.error.problems : [];
  const nameProblem = problems.find((problem) => problem.field.endsWith("name"))?.message;
  return (
    <FormDialog
      title={t("New access token")}
      action={t("Create token")}
      testId="token-create"
      busy={create.isPending}
      disabled={name.trim() === "" || scopes.length === 0}
      error={nameProblem === undefined ? create.error : null}
      onClose={onClose}
      onSubmit={create.mutate}
      result={
        create.data && (
          <>
            <Alert color="moon" title={t("Copy the token now")}>
              {t("The token is shown only once. Only its hash is stored.")}
            </Alert>
            <Group wrap="nowrap" gap="xs">
              <Code block style={{ flex: 1, background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="token-secret">
                {create.data.token}
              </Code>
              <CopyButton what={t("the token")} text={create.data.token} />
            </Group>
            <Button onClick={onClose}>{t("Done")}</Button>
          </>
        )
      }
    >
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
    </FormDialog>
  );
}
