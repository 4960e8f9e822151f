import { Alert, Button, Loader, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { CircleAlert, LogIn } from "lucide-react";
import { type SubmitEvent, useEffect, useRef, useState } from "react";
import { login, loginByLink } from "@/api/actions";
import { ApiProblem, messageOf } from "@/api/problem";
import { keys } from "@/api/queries";
import type { Me } from "@/api/types";
import { Wordmark } from "@/components/Logo";
import { formatTicking } from "@/lib/time";
import { needsFullNavigation, safeNext } from "@/lib/safe-next";
import classes from "./Login.module.css";

/** A one-time link works once, so it is taken from the address once, whatever React renders twice. */
let linkToken: string | null = null;

function takeLinkToken(): string | null {
  const found = new URLSearchParams(window.location.hash.slice(1)).get("link");
  if (found === null) return null;
  // Away from the address bar and the history before anything else happens.
  window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
  return found;
}

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
  const enter = useEnter();
  const [byLink, setByLink] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const entering = useRef(enter);
  useEffect(() => {
    entering.current = enter;
  });
  useEffect(() => {
    const followLink = () => {
      linkToken ??= takeLinkToken();
      if (linkToken === null) return;
      const token = linkToken;
      linkToken = null;
      setByLink(true);
      loginByLink(token).then(
        (me) => entering.current(me),
        (reason: unknown) => {
          setError(reason);
          setByLink(false);
        },
      );
    };
    followLink();
    // A link pasted over an open login page changes only the hash.
    window.addEventListener("hashchange", followLink);
    return () => window.removeEventListener("hashchange", followLink);
  }, []);

  return (
    <div className={classes.page}>
      <aside className={classes.art} aria-hidden="true">
        <Sky />
        <p className={classes.claim}>From a thought to a running notebook in two clicks.</p>
        <p className={classes.small}>
          Notebooks and training jobs on your own cluster: see what is free, launch, and always know why
          something waits.
        </p>
      </aside>
      <main className={classes.side}>
        <div className={classes.form}>
          <Wordmark title="Aitne" />
          <Title order={1} size="h2" mt={28} mb={4}>
            Log in
          </Title>
          {byLink ? (
            <Stack align="flex-start" gap="sm" mt="md" role="status">
              <Loader size="sm" />
              <Text c="dimmed">Logging you in with your one-time link…</Text>
            </Stack>
          ) : (
            <LoginForm onEnter={enter} linkError={error} />
          )}
        </div>
      </main>
    </div>
  );
}

function LoginForm({ onEnter, linkError }: { onEnter: (me: Me) => void; linkError: unknown }) {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(linkError);
  const wait = useCountdown(error instanceof ApiProblem && error.status === 429 ? error : null);
  const field = useRef<HTMLInputElement>(null);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || wait > 0) return;
    setBusy(true);
    setError(null);
    try {
      onEnter(await login(username.trim(), password));
    } catch (reason) {
      setError(reason);
      setPassword("");
      setBusy(false);
      field.current?.focus();
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Text c="dimmed" size="sm" mb="lg">
        With your account on this platform.
      </Text>
      <Stack gap="md">
        {error !== null && (
          <Alert color="red" icon={<CircleAlert size={18} />} role="alert" data-testid="login-error">
            {messageOf(error)}
            {wait > 0 && (
              <>
                {" "}
                Try again in <strong className="tabular">{formatTicking(wait)}</strong>.
              </>
            )}
          </Alert>
        )}
        <TextInput
          label="User name"
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
          label="Password"
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
          {wait > 0 ? `Wait ${formatTicking(wait)}` : "Log in"}
        </Button>
      </Stack>
      <Text c="dimmed" size="xs" mt="lg">
        No password? <code>aitne up</code> prints a one-time link, and an administrator can make you one.
      </Text>
    </form>
  );
}

/** Seconds that the platform asked to wait, counting down to zero. */
function useCountdown(problem: ApiProblem | null): number {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (problem === null) return undefined;
    const until = Date.now() + Math.max(1, problem.retryAfterS ?? 30) * 1000;
    const tick = () => setLeft(Math.max(0, Math.ceil((until - Date.now()) / 1000)));
    tick();
    const timer = window.setInterval(tick, 500);
    return () => {
      window.clearInterval(timer);
      setLeft(0);
    };
  }, [problem]);
  return left;
}

const STARS = Array.from({ length: 70 }, (_, i) => ({
  // A fixed scatter: the golden ratio keeps the stars apart.
  x: ((i * 0.618034) % 1) * 800,
  y: ((i * 0.754877) % 1) * 900,
  r: 0.6 + (i % 5) * 0.28,
}));

function Sky() {
  return (
    <svg viewBox="0 0 800 900" preserveAspectRatio="xMidYMid slice">
      {STARS.map((star) => (
        <circle key={star.x} cx={star.x} cy={star.y} r={star.r} fill="#fff" opacity={0.18 + star.r / 5} />
      ))}
      <g transform="translate(150 80)" fill="none">
        <circle cx="300" cy="300" r="92" fill="#5a69c9" />
        <path d="M229 358a92 92 0 0 0 160-33 128 128 0 0 1-160 33Z" fill="#1d2356" opacity=".5" />
        <g transform="rotate(-24 300 300)" stroke="#8f9cf0" strokeWidth="1.4">
          <ellipse cx="300" cy="300" rx="190" ry="70" opacity=".75" />
          <ellipse cx="300" cy="300" rx="262" ry="98" opacity=".4" />
          <ellipse cx="300" cy="300" rx="340" ry="128" opacity=".2" />
        </g>
        <circle cx="459" cy="196" r="11" fill="#3fd0b6" />
        <circle cx="76" cy="436" r="7" fill="#c3cbfa" />
        <circle cx="602" cy="120" r="5" fill="#f0c674" />
      </g>
    </svg>
  );
}
