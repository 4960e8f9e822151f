import { Anchor, Button, Checkbox, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { CircleCheck, KeyRound } from "lucide-react";
import { type SubmitEvent, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { FormProblem } from "@/components/FormProblem";
import { Wordmark } from "@/components/Logo";
import { resetPassword } from "./account";
import { LoginArt } from "./LoginArt";
import { takeSecret } from "./take-secret";
import { useWait } from "./use-wait";
import classes from "./Login.module.css";

/** The reset token of the URL. Module state, because React may run the effect twice. */
let urlToken: string | null = null;

/** Sets a new password with a one-time link from an administrator. */
export function ResetPage() {
  const { t } = useTranslation();
  useDocumentTitle(`${t("New password")} · Aitne`);
  const [token, setToken] = useState<string | null>(urlToken);
  const [name, setName] = useState<string | null>(null);
  useEffect(() => {
    const onHashChange = () => {
      urlToken = takeSecret("token") ?? urlToken;
      setToken(urlToken);
    };
    onHashChange();
    window.addEventListener("hashchange", onHashChange);
    return () => window.removeEventListener("hashchange", onHashChange);
  }, []);
  return (
    <div className={classes.page}>
      <LoginArt />
      <main className={classes.side}>
        <div className={classes.form}>
          <Wordmark title="Aitne" />
          <Title order={1} size="h2" mt={28} mb="md">
            {t("New password")}
          </Title>
          {name !== null && (
            <Stack gap="md" role="status">
              <Text>
                <CircleCheck size={18} style={{ verticalAlign: -3 }} color="var(--good)" aria-hidden />{" "}
                {t("The password of {{name}} is set. All previous logins were ended.", { name })}
              </Text>
              <Button component={Link} to="/login" size="md">
                {t("Log in")}
              </Button>
            </Stack>
          )}
          {name === null && token === null && (
            <Text c="dimmed">
              {t("This page requires a reset link from an administrator.")}{" "}
              <Anchor component={Link} to="/login" underline="always">
                {t("Log in")}
              </Anchor>
            </Text>
          )}
          {name === null && token !== null && (
            <ResetForm
              token={token}
              onDone={(userName) => {
                urlToken = null;
                setName(userName);
              }}
            />
          )}
        </div>
      </main>
    </div>
  );
}

function ResetForm({ token, onDone }: { token: string; onDone: (name: string) => void }) {
  const { t } = useTranslation();
  const [password, setPassword] = useState("");
  const [confirmation, setConfirmation] = useState("");
  const [deleteTokens, setDeleteTokens] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const wait = useWait(error);
  const mismatch = confirmation !== "" && confirmation !== password;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || mismatch) return;
    setBusy(true);
    setError(null);
    try {
      onDone((await resetPassword(token, password, deleteTokens)).name);
    } catch (reason) {
      setError(reason);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="md">
        <FormProblem error={error} wait={wait} id="reset-error" />
        <PasswordInput
          label={t("New password")}
          description={t("At least 12 characters. A passphrase is recommended.")}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          autoComplete="new-password"
          minLength={12}
          required
          withAsterisk={false}
          size="md"
          data-testid="reset-password"
        />
        <PasswordInput
          label={t("Confirm password")}
          value={confirmation}
          onChange={(event) => setConfirmation(event.currentTarget.value)}
          error={mismatch ? t("Passwords do not match.") : undefined}
          autoComplete="new-password"
          required
          withAsterisk={false}
          size="md"
          data-testid="reset-again"
        />
        <Checkbox
          label={t("Also delete all tokens")}
          description={t("Recommended if the password may be compromised.")}
          checked={deleteTokens}
          onChange={(event) => setDeleteTokens(event.currentTarget.checked)}
          data-testid="reset-delete-tokens"
        />
        <Button
          type="submit"
          size="md"
          loading={busy}
          disabled={wait > 0 || password.length < 12 || confirmation !== password}
          leftSection={<KeyRound size={18} />}
          data-testid="reset-submit"
        >
          {t("Set password")}
        </Button>
      </Stack>
    </form>
  );
}
