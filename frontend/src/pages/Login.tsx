import { Loader, Stack, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { loginByLink } from "@/api/account";
import type { Enrolment } from "@/api/account";
import { keys } from "@/api/queries";
import type { Me } from "@/api/types";
import { LoginArt } from "@/components/LoginArt";
import { LoginForm } from "@/components/LoginForm";
import { Wordmark } from "@/components/Logo";
import { SecondStepForm } from "@/components/SecondStepForm";
import { msg } from "@/i18n/msg";
import { needsFullNavigation, safeNext } from "@/lib/safe-next";
import { takeSecret } from "@/lib/take-secret";
import classes from "./Login.module.css";

/** Why a provider's login ended here again; the words are the platform's own, never the provider's. */
const FAILURES: Partial<Record<string, string>> = {
  denied: msg("The provider did not log you in. Try again, or log in another way."),
  no_account: msg("You are known to the provider, but have no account here. Ask an administrator for one."),
  single_user: msg("This platform serves one user, because all jobs run as one account of its machine. An administrator can change that."),
  name_taken: msg("There is an account of your name here that is not the provider's. An administrator can join the two."),
  bad_name: msg("The provider calls you by a name that cannot be one here. Ask an administrator."),
  not_in_group: msg("This platform is for members of certain groups, and you are in none of them. Ask an administrator."),
  not_authenticated: msg("That login was begun too long ago or in another browser, or the account is disabled. Try again."),
  unavailable: msg("The provider does not answer. Try again in a moment, or log in another way."),
};

interface Step {
  ticket: string;
  enrol: Enrolment | null;
}

/** What stands in the address works once, so it is taken from there once, whatever React renders twice. */
let linkToken: string | null = null;

function useEnter() {
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
  const enter = useEnter();
  const { next, failed } = useSearch({ from: "/login" });
  const [byLink, setByLink] = useState(false);
  const [step, setStep] = useState<Step | null>(null);
  const failure = failed === undefined ? undefined : FAILURES[failed];
  const [problem, setProblem] = useState<unknown>(failure === undefined ? null : t(failure));
  const entering = useRef(enter);
  useEffect(() => {
    entering.current = enter;
  });
  useEffect(() => {
    const follow = () => {
      const ticket = takeSecret("ticket");
      if (ticket !== null) setStep({ ticket, enrol: null });
      linkToken ??= takeSecret("link");
      if (linkToken === null) return;
      const token = linkToken;
      linkToken = null;
      setByLink(true);
      loginByLink(token).then(
        (me) => entering.current(me),
        (reason: unknown) => {
          setProblem(reason);
          setByLink(false);
        },
      );
    };
    follow();
    // A link pasted over an open login page changes only the hash.
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);

  return (
    <div className={classes.page}>
      <LoginArt />
      <main className={classes.side}>
        <div className={classes.form}>
          <Wordmark title="Aitne" />
          <Title order={1} size="h2" mt={28} mb={step === null ? 4 : "md"}>
            {step === null ? t("Log in") : t("One more step")}
          </Title>
          {byLink && (
            <Stack align="flex-start" gap="sm" mt="md" role="status">
              <Loader size="sm" />
              <Text c="dimmed">{t("Logging you in with your one-time link…")}</Text>
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
