import { Alert, Button, Code, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SubmitEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import {
  createWebhook,
  type Delivery,
  deliveriesQuery,
  enableWebhook,
  fetchDeliveries,
  removeWebhook,
  rotateWebhook,
  testWebhook,
  toldKeys,
  type Webhook,
  type WebhookSecret,
  webhooksQuery,
} from "@/api/notifications";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { msg } from "@/i18n/msg";
import type { Tone } from "@/lib/states";
import classes from "./Told.module.css";
import { whenOver } from "./when-over";

/** URLs that are told what their owner is told. */
export function Webhooks() {
  const { t } = useTranslation();
  const query = useQuery(webhooksQuery);
  const [made, setMade] = useState<WebhookSecret | null>(null);
  return (
    <Stack gap="md">
      <div>
        <h2>{t("Webhooks")}</h2>
        <Text size="sm" c="dimmed">
          {t("A program of yours is told by a signed POST request, at an https address that is not private.")}
        </Text>
      </div>
      {query.isPending && <PanelSkeleton rows={2} />}
      {query.isError && !query.data && <PageError error={query.error} onRetry={() => void query.refetch()} />}
      {query.data && query.data.length > 0 && (
        <div>
          {query.data.map((hook) => (
            <Hook key={hook.id} hook={hook} onSecret={setMade} />
          ))}
        </div>
      )}
      <NewHook onMade={setMade} />
      <SecretModal made={made} onClose={() => setMade(null)} />
    </Stack>
  );
}

function NewHook({ onMade }: { onMade: (made: WebhookSecret) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [url, setUrl] = useState("");
  const create = useMutation({
    mutationFn: () => createWebhook(url.trim()),
    onSuccess: (made) => {
      setUrl("");
      onMade(made);
      void cache.invalidateQueries({ queryKey: toldKeys.webhooks });
    },
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <FormProblem error={create.error} />
        <Group align="end" gap="sm">
          <TextInput
            style={{ flex: 1, minWidth: 220 }}
            label={t("Another webhook")}
            placeholder="https://hooks.example.org/aitne"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
            inputMode="url"
            maxLength={2_000}
            required
            withAsterisk={false}
            data-testid="webhook-url"
          />
          <Button type="submit" variant="default" loading={create.isPending} disabled={url.trim() === ""} data-testid="webhook-add">
            {t("Add")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Hook({ hook, onSecret }: { hook: Webhook; onSecret: (made: WebhookSecret) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [log, setLog] = useState(false);
  const [asking, setAsking] = useState<"remove" | "rotate" | null>(null);
  const anew = () => void cache.invalidateQueries({ queryKey: toldKeys.webhooks });
  const test = useMutation({
    mutationFn: async () => whenOver(await testWebhook(hook.id), () => fetchDeliveries(hook.id)),
    onSuccess: (sent) => {
      if (sent.state === "sent") notifyDone(t("It was taken, with status {{status}}.", { status: sent.status }));
      else notifyProblem(t("The test was not taken"), new Error(sent.error ?? t("Nobody has sent it yet.")));
    },
    onError: (error) => notifyProblem(t("The test was not sent"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: toldKeys.deliveries(hook.id) }),
  });
  const enable = useMutation({
    mutationFn: () => enableWebhook(hook.id, !hook.enabled),
    onError: (error) => notifyProblem(t("The webhook was not changed"), error),
    onSettled: anew,
  });
  const change = useMutation({
    mutationFn: async (what: "remove" | "rotate") => {
      if (what === "remove") await removeWebhook(hook.id);
      else onSecret(await rotateWebhook(hook.id));
    },
    onError: (error) => notifyProblem(t("The webhook was not changed"), error),
    onSettled: () => {
      setAsking(null);
      anew();
    },
  });
  return (
    <div className={classes.hook} data-testid="webhook">
      <Group justify="space-between" gap="xs" wrap="nowrap" align="start">
        <span className={classes.url}>{hook.url}</span>
        <ToneBadge tone={hook.enabled ? "good" : "bad"}>{hook.enabled ? t("told") : t("disabled")}</ToneBadge>
      </Group>
      {hook.disabled_why !== null && (
        <Text size="sm" c="dimmed" mt={4}>
          {hook.disabled_why}
        </Text>
      )}
      <Group gap={6} mt={8}>
        <Button size="compact-sm" variant="light" loading={test.isPending} onClick={() => test.mutate()} data-testid="webhook-test">
          {t("Send a test")}
        </Button>
        <Button size="compact-sm" variant="subtle" onClick={() => setLog((old) => !old)} aria-expanded={log}>
          {t("Last messages")}
        </Button>
        <Button size="compact-sm" variant="subtle" onClick={() => setAsking("rotate")}>
          {t("New secret")}
        </Button>
        <Button size="compact-sm" variant="subtle" loading={enable.isPending} onClick={() => enable.mutate()}>
          {hook.enabled ? t("Disable") : t("Enable again")}
        </Button>
        <Button size="compact-sm" variant="subtle" color="red" onClick={() => setAsking("remove")}>
          {t("Remove")}
        </Button>
      </Group>
      {log && <Log id={hook.id} />}
      <Confirm
        opened={asking !== null}
        title={asking === "rotate" ? t("Make a new secret?") : t("Remove the webhook?")}
        action={asking === "rotate" ? t("Make it") : t("Remove")}
        busy={change.isPending}
        onClose={() => setAsking(null)}
        onConfirm={() => asking !== null && change.mutate(asking)}
      >
        {asking === "rotate"
          ? t("The old one signs nothing more: give the new one to the receiver at once.")
          : t("Nothing more is sent to it, and what waits to be sent is dropped.")}
      </Confirm>
    </div>
  );
}

const STATES: Record<Delivery["state"], { tone: Tone; label: string }> = {
  waiting: { tone: "warn", label: msg("waits") },
  sent: { tone: "good", label: msg("taken") },
  failed: { tone: "bad", label: msg("given up") },
};

function Log({ id }: { id: string }) {
  const { t } = useTranslation();
  const query = useQuery(deliveriesQuery(id));
  if (query.isPending) return <PanelSkeleton rows={3} />;
  if (!query.data) return <PageError error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data.length === 0) {
    return (
      <Text size="sm" c="dimmed" mt="sm">
        {t("Nothing was sent yet.")}
      </Text>
    );
  }
  return (
    <div style={{ overflowX: "auto", marginTop: 10 }}>
      <table className={classes.matrix}>
        <thead>
          <tr>
            <th scope="col">{t("When")}</th>
            <th scope="col">{t("What")}</th>
            <th scope="col">{t("State")}</th>
            <th scope="col">{t("Tries")}</th>
            <th scope="col">{t("Answer")}</th>
          </tr>
        </thead>
        <tbody>
          {query.data.map((each) => (
            <tr key={each.id}>
              <td>
                <RelativeTime at={each.created_at} />
              </td>
              <td title={each.title}>{each.kind}</td>
              <td>
                <ToneBadge tone={STATES[each.state].tone}>{t(STATES[each.state].label)}</ToneBadge>
              </td>
              <td>{each.tries}</td>
              <td title={each.error ?? undefined}>{each.status ?? each.error ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SecretModal({ made, onClose }: { made: WebhookSecret | null; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal opened={made !== null} onClose={onClose} title={<strong>{t("The webhook's secret")}</strong>} closeOnClickOutside={false}>
      <Stack gap="md">
        <Alert color="moon" title={t("Copy it now")}>
          {t("It is shown this once. With it the receiver checks that a message comes from here.")}
        </Alert>
        <Group wrap="nowrap" gap="xs">
          <Code block style={{ flex: 1, background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="webhook-secret">
            {made?.secret}
          </Code>
          <CopyButton what={t("the secret")} text={made?.secret ?? ""} />
        </Group>
        <Text size="sm" c="dimmed">
          {t("The header {{name}} holds the time and the HMAC-SHA256 of time and body.", { name: "Aitne-Signature" })}
        </Text>
        <Button onClick={onClose}>{t("Done")}</Button>
      </Stack>
    </Modal>
  );
}
