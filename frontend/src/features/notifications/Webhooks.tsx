import { Alert, Button, Code, Group, Stack, Text, TextInput } from "@mantine/core";
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
  notificationKeys,
  type Webhook,
  type WebhookSecret,
  webhooksQuery,
} from "@/api/notifications";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { DataTable } from "@/components/DataTable";
import { FormProblem } from "@/components/FormProblem";
import { Modal } from "@/components/Modal";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";
import classes from "./Notifications.module.css";
import { waitForDelivery } from "./wait-for-delivery";

/** The user's webhooks, which receive the user's notifications. */
export function Webhooks() {
  const { t } = useTranslation();
  const query = useQuery(webhooksQuery);
  const [created, setCreated] = useState<WebhookSecret | null>(null);
  return (
    <Stack gap="md">
      <div>
        <h2>{t("Webhooks")}</h2>
        <Text size="sm" c="dimmed">
          {t("Sends a signed POST request to a public HTTPS URL.")}
        </Text>
      </div>
      {query.isPending && <PanelSkeleton rows={2} />}
      {query.isError && !query.data && <PageError error={query.error} onRetry={() => query.refetch()} />}
      {query.data && query.data.length > 0 && (
        <div>
          {query.data.map((hook) => (
            <Hook key={hook.id} hook={hook} onSecret={setCreated} />
          ))}
        </div>
      )}
      <NewHook onCreated={setCreated} />
      <SecretModal webhook={created} onClose={() => setCreated(null)} />
    </Stack>
  );
}

function NewHook({ onCreated }: { onCreated: (webhook: WebhookSecret) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [url, setUrl] = useState("");
  const create = useMutation({
    mutationFn: () => createWebhook(url.trim()),
    onSuccess: (webhook) => {
      setUrl("");
      onCreated(webhook);
      void cache.invalidateQueries({ queryKey: notificationKeys.webhooks });
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
            label={t("Webhook URL")}
            placeholder="https://hooks.example.org/aitne"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
            inputMode="url"
            maxLength={2_000}
            required
            withAsterisk={false}
            data-testid="webhook-url"
          />
          <ChangeButton type="submit" variant="default" loading={create.isPending} disabled={url.trim() === ""} data-testid="webhook-add">
            {t("Add")}
          </ChangeButton>
        </Group>
      </Stack>
    </form>
  );
}

function Hook({ hook, onSecret }: { hook: Webhook; onSecret: (webhook: WebhookSecret) => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [logOpened, setLogOpened] = useState(false);
  const [confirming, setConfirming] = useState<"remove" | "rotate" | null>(null);
  const refresh = () => void cache.invalidateQueries({ queryKey: notificationKeys.webhooks });
  const test = useMutation({
    mutationFn: async () => waitForDelivery(await testWebhook(hook.id), () => fetchDeliveries(hook.id)),
    onSuccess: (delivery) => {
      if (delivery.state === "sent") notifyDone(t("Test delivered (HTTP {{status}}).", { status: delivery.status }));
      else notifyProblem(t("Test delivery failed"), new Error(delivery.error ?? t("Not sent yet.")));
    },
    onError: (error) => notifyProblem(t("The test was not sent"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: notificationKeys.deliveries(hook.id) }),
  });
  const enable = useMutation({
    mutationFn: () => enableWebhook(hook.id, !hook.enabled),
    onError: (error) => notifyProblem(t("The webhook was not changed"), error),
    onSettled: refresh,
  });
  const change = useMutation({
    mutationFn: async (action: "remove" | "rotate") => {
      if (action === "remove") await removeWebhook(hook.id);
      else onSecret(await rotateWebhook(hook.id));
    },
    onError: (error) => notifyProblem(t("The webhook was not changed"), error),
    onSettled: () => {
      setConfirming(null);
      refresh();
    },
  });
  return (
    <div className={classes.hook} data-testid="webhook">
      <Group justify="space-between" gap="xs" wrap="nowrap" align="start">
        <span className={classes.url}>{hook.url}</span>
        <ToneBadge tone={hook.enabled ? "good" : "bad"}>{hook.enabled ? t("enabled") : t("disabled")}</ToneBadge>
      </Group>
      {hook.disabled_reason !== null && (
        <Text size="sm" c="dimmed" mt={4}>
          {hook.disabled_reason}
        </Text>
      )}
      <Group gap={6} mt={8}>
        <ChangeButton size="compact-sm" variant="light" loading={test.isPending} onClick={() => test.mutate()} data-testid="webhook-test">
          {t("Send test")}
        </ChangeButton>
        <Button size="compact-sm" variant="subtle" onClick={() => setLogOpened((old) => !old)} aria-expanded={logOpened}>
          {t("Recent deliveries")}
        </Button>
        <ChangeButton size="compact-sm" variant="subtle" onClick={() => setConfirming("rotate")}>
          {t("Rotate secret")}
        </ChangeButton>
        <ChangeButton size="compact-sm" variant="subtle" loading={enable.isPending} onClick={() => enable.mutate()}>
          {hook.enabled ? t("Disable") : t("Enable")}
        </ChangeButton>
        <ChangeButton size="compact-sm" variant="subtle" color="red" onClick={() => setConfirming("remove")}>
          {t("Remove")}
        </ChangeButton>
      </Group>
      {logOpened && <DeliveryLog id={hook.id} />}
      <Confirm
        opened={confirming !== null}
        title={confirming === "rotate" ? t("Rotate the secret?") : t("Remove webhook?")}
        action={confirming === "rotate" ? t("Rotate secret") : t("Remove")}
        busy={change.isPending}
        onClose={() => setConfirming(null)}
        onConfirm={() => confirming !== null && change.mutate(confirming)}
      >
        {confirming === "rotate"
          ? t("The current secret becomes invalid immediately. Configure the new secret at the receiver.")
          : t("No further messages are sent. Pending deliveries are discarded.")}
      </Confirm>
    </div>
  );
}

function DeliveryState({ state }: { state: Delivery["state"] }) {
  const { t } = useTranslation();
  const { tone, label } = known(STATES, state, { tone: "neutral", label: state });
  return <ToneBadge tone={tone}>{t(label)}</ToneBadge>;
}

const STATES: Record<Delivery["state"], { tone: Tone; label: string }> = {
  waiting: { tone: "warn", label: msg("pending") },
  sent: { tone: "good", label: msg("delivered") },
  failed: { tone: "bad", label: msg("failed") },
};

function DeliveryLog({ id }: { id: string }) {
  const { t } = useTranslation();
  const query = useQuery(deliveriesQuery(id));
  const columns: Column<Delivery>[] = [
    { header: t("Time"), cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    { header: t("Event"), cell: ({ kind, title }) => <span title={title}>{kind}</span> },
    { header: t("State"), cell: ({ state }) => <DeliveryState state={state} /> },
    { header: t("Attempts"), cell: ({ attempts }) => attempts },
    { header: t("Response"), cell: ({ status, error }) => <span title={error ?? undefined}>{status ?? error}</span> },
  ];
  return (
    <DataTable
      columns={columns}
      query={query}
      rows={query.data}
      rowKey={({ id: delivery }) => delivery}
      className={classes.deliveries}
      empty={
        <Text size="sm" c="dimmed" mt="sm">
          {t("No deliveries yet.")}
        </Text>
      }
    />
  );
}

function SecretModal({ webhook, onClose }: { webhook: WebhookSecret | null; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal opened={webhook !== null} onClose={onClose} title={<strong>{t("Webhook secret")}</strong>} closeOnClickOutside={false}>
      <Stack gap="md">
        <Alert color="moon" title={t("Copy it now")}>
          {t("The secret is shown only once. The receiver uses it to verify that messages come from this platform.")}
        </Alert>
        <Group wrap="nowrap" gap="xs">
          <Code block style={{ flex: 1, background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "pre-wrap" }} data-testid="webhook-secret">
            {webhook?.secret}
          </Code>
          <CopyButton what={t("secret")} text={webhook?.secret ?? ""} />
        </Group>
        <Text size="sm" c="dimmed">
          {t("The {{name}} header contains the timestamp and the HMAC-SHA256 of timestamp and body.", { name: "Aitne-Signature" })}
        </Text>
        <Button onClick={onClose}>{t("Done")}</Button>
      </Stack>
    </Modal>
  );
}
