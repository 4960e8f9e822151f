import { Checkbox, Group, Stack, Text } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import type { DeviceLoginView, Scope } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { DetailRow } from "@/components/DetailRow";
import { FormProblem } from "@/components/FormProblem";
import { RelativeTime } from "@/components/Time";
import { describeDevice } from "@/lib/device";
import { formatDuration } from "@/lib/time";
import classes from "./Account.module.css";

interface Props {
  request: DeviceLoginView;
  busy: boolean;
  error: Error | null;
  onAnswer: (approve: boolean, scopes: Scope[]) => void;
}

/** Shows which program wants to log in, from where and since when; the user confirms or denies it. */
export function DeviceRequest({ request, busy, error, onAnswer }: Props) {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const [admin, setAdmin] = useState(false);
  return (
    <Stack gap="md">
      <Text size="sm">
        <Trans
          i18nKey="Confirm only if you have started <code>aitne login</code> yourself, just now and at this address: the program then acts as <strong>{{name}}</strong>."
          values={{ name: me.user.name }}
          components={{ code: <code />, strong: <strong /> }}
        />
      </Text>
      <dl className={classes.facts} data-testid="device-request">
        <DetailRow name={t("Name of the token")}>{request.name}</DetailRow>
        <DetailRow name={t("Program")}>{describeDevice(request.program)}</DetailRow>
        <DetailRow name={t("Address")}>{request.address ?? t("unknown")}</DetailRow>
        <DetailRow name={t("Started")}>
          <RelativeTime at={request.created_at} />
        </DetailRow>
        <DetailRow name={t("Access")}>{t("for {{time}}", { time: formatDuration(request.token_lifetime_s) })}</DetailRow>
      </dl>
      <FormProblem error={error} id="device-error" />
      {me.user.role === "admin" && (
        <Checkbox checked={admin} onChange={(event) => setAdmin(event.currentTarget.checked)} label={t("Admin: manage jobs and accounts of other users")} />
      )}
      <Group gap="sm">
        <ChangeButton loading={busy} onClick={() => onAnswer(true, ["read", "write", ...(admin ? (["admin"] as const) : [])])} data-testid="device-confirm">
          {t("Confirm")}
        </ChangeButton>
        <ChangeButton variant="default" disabled={busy} onClick={() => onAnswer(false, ["read"])} data-testid="device-refuse">
          {t("Deny")}
        </ChangeButton>
      </Group>
    </Stack>
  );
}
