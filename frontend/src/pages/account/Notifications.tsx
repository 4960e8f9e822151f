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
  toldKeys,
  toldSettingsQuery,
} from "@/api/notifications";
import { FormProblem } from "@/components/FormProblem";
import { notifyDone, notifyProblem } from "@/components/notify";
import { Webhooks } from "@/components/notifications/Webhooks";
import { whenOver } from "@/components/notifications/when-over";
import toldClasses from "@/components/notifications/Told.module.css";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { msg } from "@/i18n/msg";
import { formatMoment } from "@/lib/time";
import { KINDS } from "@/lib/told";
import classes from "./Account.module.css";

const CHANNELS: Partial<Record<string, string>> = {
  browser: msg("Portal"),
  mail: msg("Mail"),
  webhook: msg("Webhooks"),
};

const EXAMPLE = "ada@example.org";

/** What one is told, and how. */
export function AccountNotificationsPage() {
  const { t } = useTranslation();
  const query = useQuery(toldSettingsQuery);
  if (query.isPending) {
    return (
      <section className={`card ${classes.card ?? ""}`} style={{ maxWidth: 720 }}>
        <PanelSkeleton rows={9} />
      </section>
    );
  }
  if (!query.data) return <PageError error={query.error} onRetry={() => void query.refetch()} />;
  const { settings } = query.data;
  return (
    <div className={classes.cards}>
      <section className={`card ${classes.card ?? ""}`} aria-label={t("What you are told")}>
        <Choices key={query.data.etag ?? ""} tagged={query.data} />
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

const QUIET = [
  { value: "off", label: msg("No") },
  { value: "1", label: msg("For an hour") },
  { value: "8", label: msg("For 8 hours") },
  { value: "168", label: msg("For a week") },
];

function Choices({ tagged }: { tagged: TaggedSettings }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { settings, etag } = tagged;
  const [choices, setChoices] = useState(settings.choices);
  const [mail, setMail] = useState(settings.mail ?? "");
  const [quiet, setQuiet] = useState(isQuiet(settings) ? "kept" : "off");
  const save = useMutation({
    mutationFn: () =>
      saveSettings(
        { choices, mail: mail.trim() === "" ? null : mail.trim(), quiet_until: until(quiet, settings) },
        etag,
      ),
    onSuccess: (answer) => {
      cache.setQueryData(toldSettingsQuery.queryKey, answer);
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
        <h2>{t("What you are told")}</h2>
        <FormProblem error={save.error} />
        <div style={{ overflowX: "auto" }}>
          <table className={toldClasses.matrix}>
            <thead>
              <tr>
                <th scope="col">{t("When")}</th>
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
              description={t("Without one, no mail is sent.")}
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
          label={t("Leave me in peace")}
          description={t("Then only the inbox is used: no popup, mail or webhook.")}
          value={quiet}
          onChange={(value) => setQuiet(value ?? "off")}
          allowDeselect={false}
          data={[
            ...(isQuiet(settings) && settings.quiet_until !== null
              ? [{ value: "kept", label: t("Until {{time}}", { time: formatMoment(new Date(settings.quiet_until)) }) }]
              : []),
            ...QUIET.map(({ value, label }) => ({ value, label: t(label) })),
          ]}
          maw={320}
        />
        <Group>
          <Button type="submit" loading={save.isPending} data-testid="save-notifications">
            {t("Save")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function isQuiet(settings: Settings): boolean {
  return settings.quiet_until !== null && new Date(settings.quiet_until) > platformNow();
}

function until(quiet: string, settings: Settings): string | null {
  if (quiet === "kept") return settings.quiet_until;
  const hours = Number(quiet);
  return Number.isFinite(hours) ? new Date(platformNow().getTime() + hours * 3_600_000).toISOString() : null;
}

function TestMail({ disabled }: { disabled: boolean }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const test = useMutation({
    mutationFn: async () => whenOver(await testMail(), fetchMails),
    onSuccess: (mail) => {
      if (mail.state === "sent") notifyDone(t("The mail server has taken the mail."));
      else notifyProblem(t("The mail was not sent"), new Error(mail.error ?? t("Nobody has sent it yet.")));
    },
    onError: (error) => notifyProblem(t("The mail was not sent"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: toldKeys.mails }),
  });
  return (
    <Button variant="default" disabled={disabled} loading={test.isPending} onClick={() => test.mutate()} data-testid="test-mail">
      {t("Send a test")}
    </Button>
  );
}

/** Whether this browser may show what happens while the portal is out of sight. */
function BrowserCard() {
  const { t } = useTranslation();
  const there = typeof Notification !== "undefined";
  const [permission, setPermission] = useState(there ? Notification.permission : "denied");
  return (
    <section className={`card ${classes.card ?? ""}`} aria-label={t("This browser")}>
      <h2>{t("This browser")}</h2>
      {permission === "granted" && (
        <Text size="sm" c="dimmed">
          {t("It shows what happens while the portal is open in a tab that you do not look at.")}
        </Text>
      )}
      {permission === "default" && (
        <Stack gap="sm" align="start">
          <Text size="sm" c="dimmed">
            {t("It may show what happens while the portal is open in a tab that you do not look at.")}
          </Text>
          <Button variant="default" onClick={() => void Notification.requestPermission().then(setPermission)}>
            {t("Allow it")}
          </Button>
        </Stack>
      )}
      {permission === "denied" && (
        <Alert color="gray">
          {there
            ? t("It was told to show no notifications of the portal. Its settings for this site change that.")
            : t("It shows no notifications here; over HTTPS it might.")}
        </Alert>
      )}
    </section>
  );
}
