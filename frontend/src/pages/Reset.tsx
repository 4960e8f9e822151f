import { Anchor, Button, Checkbox, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { CircleCheck, KeyRound } from "lucide-react";
import { type SubmitEvent, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { resetPassword } from "@/api/account";
import { FormProblem } from "@/components/FormProblem";
import { LoginArt } from "@/components/LoginArt";
import { Wordmark } from "@/components/Logo";
import { useWait } from "@/hooks/use-wait";
import { takeSecret } from "@/lib/take-secret";
import classes from "./Login.module.css";

/** Kept over React's second rendering: the address has it once. */
let taken: string | null = null;

/** Where an administrator's link leads: a new password, once. */
export function ResetPage() {
  const { t } = useTranslation();
  useDocumentTitle(`${t("New password")} · Aitne`);
  const [token, setToken] = useState<string | null>(taken);
  const [name, setName] = useState<string | null>(null);
  useEffect(() => {
    const follow = () => {
      taken = takeSecret("token") ?? taken;
      setToken(taken);
    };
    follow();
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
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
                {t("The password of {{name}} is set, and all sign-ins of before have ended.", { name })}
              </Text>
              <Button component={Link} to="/login" size="md">
                {t("Log in")}
              </Button>
            </Stack>
          )}
          {name === null && token === null && (
            <Text c="dimmed">
              {t("This page is opened by a link that an administrator makes.")}{" "}
              <Anchor component={Link} to="/login" underline="always">
                {t("Log in")}
              </Anchor>
            </Text>
          )}
          {name === null && token !== null && (
            <ResetForm
              token={token}
              onDone={(whose) => {
                taken = null;
                setName(whose);
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
  const [again, setAgain] = useState("");
  const [deleteTokens, setDeleteTokens] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const wait = useWait(error);
  const differ = again !== "" && again !== password;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || differ) return;
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
          description={t("At least 12 characters; a short sentence is good.")}
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
          label={t("Once more")}
          value={again}
          onChange={(event) => setAgain(event.currentTarget.value)}
          error={differ ? t("The two are not the same.") : undefined}
          autoComplete="new-password"
          required
          withAsterisk={false}
          size="md"
          data-testid="reset-again"
        />
        <Checkbox
          label={t("Also delete all tokens")}
          description={t("If another person may have known the password.")}
          checked={deleteTokens}
          onChange={(event) => setDeleteTokens(event.currentTarget.checked)}
          data-testid="reset-delete-tokens"
        />
        <Button
          type="submit"
          size="md"
          loading={busy}
          disabled={wait > 0 || password.length < 12 || again !== password}
          leftSection={<KeyRound size={18} />}
          data-testid="reset-submit"
        >
          {t("Set the password")}
        </Button>
      </Stack>
    </form>
  );
}
