import { Anchor, Button, Group, Stack, Text } from "@mantine/core";
import { ShieldCheck } from "lucide-react";
import { type SubmitEvent, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { ApiProblem } from "@/api/problem";
import type { Me } from "@/api/types";
import { FormProblem } from "@/components/FormProblem";
import { finishLogin, type Enrolment } from "./account";
import { CodeField } from "./CodeField";
import { Qr } from "./Qr";
import { RecoveryCodes } from "./RecoveryCodes";
import { useWait } from "./use-wait";

interface Props {
  ticket: string;
  /** Set where the site requires a second factor and the user has none yet. */
  enrol: Enrolment | null;
  onEnter: (me: Me) => void;
  onBack: (problem: unknown) => void;
}

/** The second step of a login: a one-time code, after setting up the device where necessary. */
export function SecondStepForm({ ticket, enrol, onEnter, onBack }: Props) {
  const { t } = useTranslation();
  const [code, setCode] = useState("");
  const [recovery, setRecovery] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [entered, setEntered] = useState<(Me & { recovery_codes: string[] }) | null>(null);
  const wait = useWait(error);
  const field = useRef<HTMLInputElement>(null);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || wait > 0) return;
    setBusy(true);
    setError(null);
    try {
      const me = await finishLogin(ticket, code);
      if (me.recovery_codes.length > 0) setEntered(me);
      else onEnter(me);
    } catch (reason) {
      // The ticket has expired: the login starts again with the password.
      if (reason instanceof ApiProblem && reason.code === "login_expired") {
        onBack(t("The login has expired. Log in again with your password."));
        return;
      }
      setError(reason);
      setCode("");
      setBusy(false);
      field.current?.focus();
    }
  };
  if (entered !== null) return <RecoveryCodes codes={entered.recovery_codes} onDone={() => onEnter(entered)} />;
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="md">
        {enrol !== null && (
          <>
            <Text size="sm" c="dimmed">
              {t("A second factor is required. Scan the QR code with an authenticator app, then enter the code.")}
            </Text>
            <Qr enrolment={enrol} />
          </>
        )}
        <FormProblem error={error} wait={wait} id="factor-error" />
        <CodeField ref={field} value={code} onChange={setCode} recovery={recovery} />
        <Button
          type="submit"
          size="md"
          loading={busy}
          disabled={wait > 0 || code.trim() === ""}
          leftSection={<ShieldCheck size={18} />}
          data-testid="factor-submit"
        >
          {t("Verify")}
        </Button>
        <Group justify="space-between" gap="xs">
          <Anchor component="button" type="button" size="sm" onClick={() => onBack(null)}>
            {t("Use another account")}
          </Anchor>
          {enrol === null && (
            <Anchor
              component="button"
              type="button"
              size="sm"
              onClick={() => {
                setRecovery(!recovery);
                setCode("");
                field.current?.focus();
              }}
              data-testid="use-recovery"
            >
              {recovery ? t("Use authenticator app") : t("Use a recovery code")}
            </Anchor>
          )}
        </Group>
      </Stack>
    </form>
  );
}
