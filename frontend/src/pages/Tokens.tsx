import { Alert, Button, Checkbox, Code, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { KeyRound, Plus } from "lucide-react";
import { type SubmitEvent, useState } from "react";
import { createToken, revokeToken } from "@/api/actions";
import { ApiProblem, messageOf } from "@/api/problem";
import { keys, meQuery, tokensQuery } from "@/api/queries";
import type { NewToken, Token } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { EmptyState } from "@/components/EmptyState";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PageTitle } from "@/components/PageTitle";
import { TableSkeleton } from "@/components/TableSkeleton";
import { RelativeTime } from "@/components/Time";
import classes from "@/components/table.module.css";

export function TokensPage() {
  const query = useQuery(tokensQuery);
  const [creating, setCreating] = useState(false);
  const tokens = query.data?.items;
  return (
    <>
      <PageTitle title="Access tokens">
        <Button size="sm" leftSection={<Plus size={16} />} onClick={() => setCreating(true)} data-testid="token-new">
          New token
        </Button>
      </PageTitle>
      <Text size="sm" c="dimmed" mb="md" maw={640}>
        A token lets a script or the command line act as you. Give each use a token of its own, so that one can be
        revoked without the others.
      </Text>
      <div className="card" style={{ overflow: "hidden" }}>
        {query.isPending && <TableSkeleton rows={3} />}
        {query.isError && !tokens && <PageError error={query.error} onRetry={() => void query.refetch()} />}
        {tokens?.length === 0 && (
          <EmptyState icon={KeyRound} title="No tokens">
            Make one for the command line: <code>AITNE_TOKEN</code> and <code>AITNE_URL</code> are all it needs.
          </EmptyState>
        )}
        {tokens && tokens.length > 0 && <TokenTable tokens={tokens} />}
      </div>
      <NewTokenModal opened={creating} onClose={() => setCreating(false)} />
    </>
  );
}

function TokenTable({ tokens }: { tokens: Token[] }) {
  const cache = useQueryClient();
  const [asking, setAsking] = useState<Token | null>(null);
  const revoke = useMutation({
    mutationFn: (token: Token) => revokeToken(token.id),
    onSuccess: () => notifyDone("The token no longer works."),
    onError: (error) => notifyProblem("The token was not revoked", error),
    onSettled: () => {
      setAsking(null);
      void cache.invalidateQueries({ queryKey: keys.tokens });
    },
  });
  return (
    <div className={classes.wrap}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">May</th>
            <th scope="col">Created</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id} data-testid="token-row">
              <td className={classes.name}>
                <strong>{token.name}</strong>
              </td>
              <td data-label="May">{[...token.scopes].sort().join(", ")}</td>
              <td data-label="Created">
                <RelativeTime at={token.created_at} />
              </td>
              <td data-label="Last used">
                {token.last_used_at === null ? <span className={classes.dim}>never</span> : <RelativeTime at={token.last_used_at} />}
              </td>
              <td data-label="Expires">
                {token.expires_at === null ? <span className={classes.dim}>never</span> : <RelativeTime at={token.expires_at} />}
              </td>
              <td className={classes.num}>
                <Button variant="subtle" color="red" size="compact-sm" onClick={() => setAsking(token)} aria-label={`Revoke ${token.name}`}>
                  Revoke
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm
        opened={asking !== null}
        title={`Revoke ${asking?.name ?? "the token"}?`}
        action="Revoke"
        busy={revoke.isPending}
        onClose={() => setAsking(null)}
        onConfirm={() => {
          if (asking !== null) revoke.mutate(asking);
        }}
      >
        Whatever uses this token is refused from now on. This cannot be undone.
      </Confirm>
    </div>
  );
}

const LIFETIMES = [
  { value: "7d", label: "7 days" },
  { value: "30d", label: "30 days" },
  { value: "90d", label: "90 days" },
  { value: "365d", label: "1 year" },
  { value: "never", label: "Never" },
];

function NewTokenModal({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read", "write"]);
  const [life, setLife] = useState("30d");
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
      expires_in: life === "never" ? null : life,
    });
  };
  const problems = create.error instanceof ApiProblem ? create.error.problems : [];
  const nameProblem = problems.find((problem) => problem.field.endsWith("name"))?.message;
  return (
    <Modal opened={opened} onClose={close} title={<strong>New access token</strong>} closeOnClickOutside={create.data === undefined}>
      {create.data ? (
        <Stack gap="md">
          <Alert color="moon" title="Copy it now">
            This is the only time the token is shown; only a fingerprint of it is stored.
          </Alert>
          <Group wrap="nowrap" gap="xs">
            <Code block style={{ flex: 1, background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="token-secret">
              {create.data.token}
            </Code>
            <CopyButton what="the token" text={create.data.token} />
          </Group>
          <Button onClick={close}>Done</Button>
        </Stack>
      ) : (
        <form onSubmit={submit}>
          <Stack gap="md">
            {create.error !== null && nameProblem === undefined && (
              <Alert color="red" role="alert">
                {messageOf(create.error)}
              </Alert>
            )}
            <TextInput
              label="What is it for?"
              placeholder="Laptop"
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={nameProblem}
              maxLength={100}
              required
              data-autofocus
              data-testid="token-name"
            />
            <Checkbox.Group label="It may" value={scopes} onChange={setScopes}>
              <Stack gap={8} mt={8}>
                <Checkbox value="read" label="Read: see jobs, logs and nodes" />
                <Checkbox value="write" label="Write: launch, stop and change" />
                {me.user.role === "admin" && <Checkbox value="admin" label="Administer: act on others' jobs and accounts" />}
              </Stack>
            </Checkbox.Group>
            <Select label="It expires after" data={LIFETIMES} value={life} onChange={(value) => setLife(value ?? "30d")} allowDeselect={false} />
            <Button type="submit" loading={create.isPending} disabled={name.trim() === "" || scopes.length === 0} data-testid="token-create">
              Create token
            </Button>
          </Stack>
        </form>
      )}
    </Modal>
  );
}
