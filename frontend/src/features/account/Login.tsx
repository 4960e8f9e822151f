import { Loader, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { keys } from "@/api/queries";
import type { Me } from "@/api/types";
import { Wordmark } from "@/components/Logo";
import { msg } from "@/i18n/msg";
import { loginByLink } from "./account";
import type { Enrolment } from "./account";
import { LoginArt } from "./LoginArt";
import { LoginForm } from "./LoginForm";
import { needsFullNavigation, safeNext } from "./safe-next";
import { SecondStepForm } from "./SecondStepForm";
import { takeSecret } from "./take-secret";
import classes from "./Login.module.css";

/** Messages for failed logins at an identity provider, by error code. */
const FAILURES: Partial<Record<string, string>> = {
  denied: msg("The identity provider denied the login. Try again, or use another login method."),
  no_account: msg("You have no account on this platform. Ask an administrator to create one."),
  single_user: msg("This platform allows a single user because all jobs run under one Unix account. An administrator can change this."),
  name_taken: msg("An account with your user name exists but is not linked to the identity provider. An administrator can link it."),
  bad_name: msg("The user name from the identity provider is not valid on this platform. Ask an administrator."),
  not_in_group: msg("This platform is restricted to certain groups, and you are not a member of any of them. Ask an administrator."),
  not_authenticated: msg("The login expired or was started in another browser, or the account is disabled. Try again."),
  unavailable: msg("The identity provider is not available. Try again later, or use another login method."),
};

interface Step {
  ticket: string;
  enrol: Enrolment | null;
}

/** The one-time token of the URL. Module state, because React may run the effect twice. */
let linkToken: string | null = null;

function useLoginRedirect() {
  const cache = useQueryClient();
  const router = useRouter();
  const { next } = useSearch({ from: "/login" });
  return (me: Me) => {
    cache.clear();
    cache.setQueryData(keys.me, me);
    const target = safeNext(next, window.location.origin);
    if (needsFullNavigation(target)) window.location.assign(target);
    else router.history.push(target);
  };
}

export function LoginPage() {
  const { t } = useTranslation();
  useDocumentTitle(`${t("Log in")} · Aitne`);
  const enter = useLoginRedirect();
  const { next, failed } = useSearch({ from: "/login" });
  const [byLink, setByLink] = useState(false);
  const [step, setStep] = useState<Step | null>(null);
  const failure = failed === undefined ? undefined : FAILURES[failed];
  const [problem, setProblem] = useState<unknown>(failure === undefined ? null : t(failure));
  const enterRef = useRef(enter);
  useEffect(() => {
    enterRef.current = enter;
  });
  useEffect(() => {
    const onHashChange = () => {
      const ticket = takeSecret("ticket");
      if (ticket !== null) setStep({ ticket, enrol: null });
      linkToken ??= takeSecret("link");
      if (linkToken === null) return;
      const token = linkToken;
      linkToken = null;
      setByLink(true);
      loginByLink(token).then(
        (me) => enterRef.current(me),
        (reason: unknown) => {
          setProblem(reason);
          setByLink(false);
        },
      );
    };
    onHashChange();
    // Pasting a link into an open login page changes only the hash.
    window.addEventListener("hashchange", onHashChange);
    return () => window.removeEventListener("hashchange", onHashChange);
  }, []);

  return (
    <div className={classes.page}>
      <LoginArt />
      <main className={classes.side}>
        <div className={classes.form}>
          <Wordmark title="Aitne" />
          <Title order={1} size="h2" mt={28} mb={step === null ? 4 : "md"}>
            {step === null ? t("Log in") : t("Second factor")}
          </Title>
          {byLink && (
            <Stack align="flex-start" gap="sm" mt="md" role="status">
              <Loader size="sm" />
              <Text c="dimmed">{t("Logging in with a one-time link…")}</Text>
            </Stack>
          )}
          {!byLink && step !== null && (
            <SecondStepForm
              ticket={step.ticket}
              enrol={step.enrol}
              onEnter={enter}
              onBack={(reason) => {
                setProblem(reason);
                setStep(null);
              }}
            />
          )}
          {!byLink && step === null && (
            <LoginForm next={safeNext(next, window.location.origin)} problem={problem} onEnter={enter} onSecondStep={setStep} />
          )}
        </div>
      </main>
    </div>
  );
}
