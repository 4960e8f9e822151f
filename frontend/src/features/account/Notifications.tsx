import { Alert, Button, Checkbox, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { platformNow } from "@/api/client";
import {
  fetchMails,
  type Kind,
  type Settings,
  saveSettings,
  testMail,
  type TaggedSettings,
  notificationKeys,
  notificationSettingsQuery,
} from "@/api/notifications";
import { ChangeButton } from "@/components/ChangeButton";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { waitForDelivery } from "@/features/notifications/wait-for-delivery";
import { Webhooks } from "@/features/notifications/Webhooks";
import { msg } from "@/i18n/msg";
import { KINDS } from "@/lib/notifications";
import { formatMoment } from "@/lib/time";
import notificationClasses from "@/features/notifications/Notifications.module.css";
import classes from "./Account.module.css";

const CHANNELS: Partial<Record<string, string>> = {
  browser: msg("Portal"),
  mail: msg("Mail"),
  webhook: msg("Webhooks"),
};

const EXAMPLE = "ada@example.org";

/** Notification settings of the user. */
export function AccountNotificationsPage() {
  const { t } = useTranslation();
  const query = useQuery(notificationSettingsQuery);
  if (query.isPending) {
    return (
      <section className={`card ${classes.card ?? ""}`} style={{ maxWidth: 720 }}>
        <PanelSkeleton rows={9} />
      </section>
    );
  }
  if (!query.data) return <PageError error={query.error} onRetry={() => query.refetch()} />;
  const { settings } = query.data;
  return (
    <div className={classes.cards}>
      <section className={`card ${classes.card ?? ""}`} aria-label={t("Notification settings")}>
        <SettingsForm key={query.data.etag ?? ""} tagged={query.data} />
      </section>
      <BrowserCard />
      {settings.channels.includes("webhook") && (
        <section className={`card ${classes.card ?? ""}`} aria-label={t("Webhooks")}>
          <Webhooks />
        </section>
      )}
    </div>
  );
}

const QUIET_PERIODS = [
  { value: "off", label: msg("Off") },
  { value: "1", label: msg("For 1 hour") },
  { value: "8", label: msg("For 8 hours") },
  { value: "168", label: msg("For 1 week") },
];

function SettingsForm({ tagged }: { tagged: TaggedSettings }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { settings, etag } = tagged;
  const [choices, setChoices] = useState(settings.choices);
  const [mail, setMail] = useState(settings.mail ?? "");
  const [quiet, setQuiet] = useState(isQuiet(settings) ? "unchanged" : "off");
  const save = useMutation({
    mutationFn: () =>
      saveSettings(
        { choices, mail: mail.trim() === "" ? null : mail.trim(), quiet_until: quietUntil(quiet, settings) },
        etag,
      ),
    onSuccess: (answer) => {
      cache.setQueryData(notificationSettingsQuery.queryKey, answer);
      notifyDone(t("Saved."));
    },
  });
  const set = (kind: Kind, channel: string, on: boolean) =>
    setChoices((old) => ({ ...old, [kind]: { ...old[kind], [channel]: on } }));
  const byMail = settings.channels.includes("mail");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Stack gap="md">
        <h2>{t("Notification settings")}</h2>
        <FormProblem error={save.error} />
        <div style={{ overflowX: "auto" }}>
          <table className={notificationClasses.matrix}>
            <thead>
              <tr>
                <th scope="col">{t("Event")}</th>
                {settings.channels.map((channel) => (
                  <th key={channel} scope="col">
                    {t(CHANNELS[channel] ?? channel)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {KINDS.map(({ kind, label }) => (
                <tr key={kind}>
                  <th scope="row">{t(label)}</th>
                  {settings.channels.map((channel) => (
                    <td key={channel}>
                      <div>
                        <Checkbox
                          checked={choices[kind]?.[channel] ?? false}
                          onChange={(event) => set(kind, channel, event.currentTarget.checked)}
                          aria-label={`${t(label)}: ${t(CHANNELS[channel] ?? channel)}`}
                          disabled={channel === "mail" && mail.trim() === ""}
                        />
                      </div>
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {byMail && (
          <Group align="end" gap="sm">
            <TextInput
              style={{ flex: 1, minWidth: 220 }}
              type="email"
              label={t("Mail address")}
              description={t("Required for mail notifications.")}
              placeholder={EXAMPLE}
              value={mail}
              onChange={(event) => setMail(event.currentTarget.value)}
              autoComplete="email"
              maxLength={254}
              data-testid="mail"
            />
            <TestMail disabled={settings.mail === null || mail.trim() !== settings.mail} />
          </Group>
        )}
        <Select
          label={t("Do not disturb")}
          description={t("Notifications appear only in the inbox, without pop-ups, mail or webhooks.")}
          value={quiet}
          onChange={(value) => setQuiet(value ?? "off")}
          allowDeselect={false}
          data={[
            ...(isQuiet(settings) && settings.quiet_until !== null
              ? [{ value: "unchanged", label: t("Until {{time}}", { time: formatMoment(new Date(settings.quiet_until)) }) }]
              : []),
            ...QUIET_PERIODS.map(({ value, label }) => ({ value, label: t(label) })),
          ]}
          maw={320}
        />
        <Group>
          <ChangeButton type="submit" loading={save.isPending} data-testid="save-notifications">
            {t("Save")}
          </ChangeButton>
        </Group>
      </Stack>
    </form>
  );
}

function isQuiet(settings: Settings): boolean {
  return settings.quiet_until !== null && new Date(settings.quiet_until) > platformNow();
}

function quietUntil(quiet: string, settings: Settings): string | null {
  if (quiet === "unchanged") return settings.quiet_until;
  const hours = Number(quiet);
  return Number.isFinite(hours) ? new Date(platformNow().getTime() + hours * 3_600_000).toISOString() : null;
}

function TestMail({ disabled }: { disabled: boolean }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const test = useMutation({
    mutationFn: async () => waitForDelivery(await testMail(), fetchMails),
    onSuccess: (mail) => {
      if (mail.state === "sent") notifyDone(t("Test mail accepted by the mail server."));
      else notifyProblem(t("Could not send the mail"), new Error(mail.error ?? t("Not sent yet.")));
    },
    onError: (error) => notifyProblem(t("Could not send the mail"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: notificationKeys.mails }),
  });
  return (
    <ChangeButton variant="default" disabled={disabled} loading={test.isPending} onClick={() => test.mutate()} data-testid="test-mail">
      {t("Send test mail")}
    </ChangeButton>
  );
}

/** Permission of this browser for desktop notifications. */
function BrowserCard() {
  const { t } = useTranslation();
  const supported = typeof Notification !== "undefined";
  const [permission, setPermission] = useState(supported ? Notification.permission : "denied");
  return (
    <section className={`card ${classes.card ?? ""}`} aria-label={t("This browser")}>
      <h2>{t("This browser")}</h2>
      {permission === "granted" && (
        <Text size="sm" c="dimmed">
          {t("Desktop notifications are enabled while the portal is open in a background tab.")}
        </Text>
      )}
      {permission === "default" && (
        <Stack gap="sm" align="start">
          <Text size="sm" c="dimmed">
            {t("Show desktop notifications while the portal is open in a background tab.")}
          </Text>
          <Button variant="default" onClick={() => void Notification.requestPermission().then(setPermission)}>
            {t("Allow notifications")}
          </Button>
        </Stack>
      )}
      {permission === "denied" && (
        <Alert color="gray">
          {supported
            ? t("Notifications are blocked in this browser. Change this in its site settings.")
            : t("Notifications are not available in this browser. They may require HTTPS.")}
        </Alert>
      )}
    </section>
  );
}
