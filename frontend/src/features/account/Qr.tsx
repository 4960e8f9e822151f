import { Code, Group, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { CopyButton } from "@/components/CopyButton";
import type { Enrolment } from "./account";

/** The secret of an authenticator app as QR code and as text. */
export function Qr({ enrolment }: { enrolment: Enrolment }) {
  const { t } = useTranslation();
  return (
    <Stack gap="sm" align="center">
      <img
        src={`data:image/svg+xml,${encodeURIComponent(enrolment.qr_svg)}`}
        alt={t("QR code for the authenticator app")}
        width={208}
        height={208}
        style={{ borderRadius: 8, background: "#fff" }}
        data-testid="factor-qr"
      />
      <Text size="sm" c="dimmed" ta="center">
        {t("Or enter this secret in the app:")}
      </Text>
      <Group gap="xs" wrap="nowrap" maw="100%">
        <Code style={{ background: "var(--well)", overflowWrap: "anywhere", whiteSpace: "normal" }} data-testid="factor-secret">
          {enrolment.secret.replace(/(.{4})(?=.)/g, "$1 ")}
        </Code>
        <CopyButton what={t("secret")} text={enrolment.secret} />
      </Group>
    </Stack>
  );
}
