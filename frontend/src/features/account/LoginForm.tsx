import { Button, Divider, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Building2, LogIn } from "lucide-react";
import { type SubmitEvent, useRef, useState } from "react";
import { Trans, useTranslation } from "react-i18next";
import type { Me } from "@/api/types";
import { FormProblem } from "@/components/FormProblem";
import { formatTicking } from "@/lib/time";
import { login, loginSourcesQuery, type SecondStep } from "./account";
import { useWait } from "./use-wait";

interface Props {
  /** The page after the login, for identity providers that redirect the browser. */
  next: string;
  problem: unknown;
  onEnter: (me: Me) => void;
  onSecondStep: (step: SecondStep) => void;
}

/** The login methods of the platform: user name and password, and a button for each identity provider. */
export function LoginForm({ next, problem, onEnter, onSecondStep }: Props) {
  const { t } = useTranslation();
  const sources = useQuery(loginSourcesQuery);
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(problem);
  const wait = useWait(error);
  const field = useRef<HTMLInputElement>(null);
  const form = sources.data?.form ?? true;
  const buttons = sources.data?.buttons ?? [];

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || wait > 0) return;
    setBusy(true);
    setError(null);
    try {
      const result = await login(username.trim(), password);
      if ("ticket" in result) onSecondStep(result);
      else onEnter(result);
    } catch (reason) {
      setError(reason);
      setPassword("");
      setBusy(false);
      field.current?.focus();
    }
  };
  return (
    <Stack gap="md">
      <Text c="dimmed" size="sm">
        {t("Log in with your platform account.")}
      </Text>
      <FormProblem error={error} wait={wait} id="login-error" />
      {buttons.map((button) => (
        <Button
          key={button.name}
          component="a"
          href={`${button.url}?next=${encodeURIComponent(next)}`}
          size="md"
          variant={form ? "default" : "filled"}
          leftSection={<Building2 size={18} />}
          data-testid={`login-${button.name}`}
        >
          {button.label}
        </Button>
      ))}
      {form && buttons.length > 0 && <Divider label={t("or")} />}
      {form && (
        <form onSubmit={(event) => void submit(event)}>
          <Stack gap="md">
            <TextInput
              label={t("User name")}
              value={username}
              onChange={(event) => setUsername(event.currentTarget.value)}
              autoComplete="username"
              autoCapitalize="none"
              spellCheck={false}
              required
              withAsterisk={false}
              size="md"
              data-autofocus
              data-testid="login-username"
            />
            <PasswordInput
              ref={field}
              label={t("Password")}
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              autoComplete="current-password"
              required
              withAsterisk={false}
              size="md"
              data-testid="login-password"
            />
            <Button
              type="submit"
              size="md"
              mt={4}
              loading={busy}
              disabled={wait > 0}
              leftSection={<LogIn size={18} />}
              data-testid="login-submit"
            >
              {wait > 0 ? t("Try again in {{time}}", { time: formatTicking(wait) }) : t("Log in")}
            </Button>
          </Stack>
        </form>
      )}
      <Text c="dimmed" size="xs" mt={4}>
        <Trans
          i18nKey="Forgot your password? Ask an administrator for a reset link. <code>aitne up</code> prints a one-time link."
          components={{ code: <code /> }}
        />
      </Text>
    </Stack>
  );
}
