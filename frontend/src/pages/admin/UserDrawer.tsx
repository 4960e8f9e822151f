import { Alert, Button, Drawer, Group, Select, Skeleton, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Eye, KeyRound, LockOpen, LogOut, ShieldOff, UserX } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { changeUser } from "@/api/actions";
import { adminKeys, impersonate, makeResetLink, type Protection, protectionQuery, resetSecondFactor, signOutUser, unlockUser } from "@/api/admin";
import { keys, meQuery } from "@/api/queries";
import type { User } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { formatMoment } from "@/lib/time";
import classes from "./Admin.module.css";

/** Everything that an administrator can do for one account. */
export function UserDrawer({ user, onClose }: { user: User; onClose: () => void }) {
  const { t } = useTranslation();
  const protection = useQuery(protectionQuery(user.name));
  return (
    <Drawer opened onClose={onClose} position="right" title={<strong>{user.display_name || user.name}</strong>}>
      <Stack gap="lg">
        <div>
          <Text size="sm" className="mono">
            {user.name}
          </Text>
          <Group gap="md" mt={6}>
            <Link to="/admin/jobs" search={{ owner: user.name }} className={classes.anchor}>
              {t("Jobs and sessions")}
            </Link>
            <Link to="/admin/audit" search={{ actor: user.name }} className={classes.anchor}>
              {t("What was done")}
            </Link>
          </Group>
        </div>
        {protection.isPending && <Skeleton height={120} radius={8} />}
        {protection.isError && !protection.data && <PageError compact error={protection.error} onRetry={() => void protection.refetch()} />}
        {protection.data && <Facts protection={protection.data} />}
        <Role user={user} />
        {protection.data && <Actions user={user} protection={protection.data} />}
      </Stack>
    </Drawer>
  );
}

function Facts({ protection }: { protection: Protection }) {
  const { t } = useTranslation();
  const { source, has_password, second_factor, locked_until, sign_ins } = protection;
  return (
    <dl className={classes.facts}>
      <dt>{t("Account of")}</dt>
      <dd>{source === "password" ? t("this platform") : source}</dd>
      <dt>{t("Password")}</dt>
      <dd>{has_password ? t("set here") : t("none here")}</dd>
      <dt>{t("Second factor")}</dt>
      <dd>{second_factor ? t("on") : t("off")}</dd>
      <dt>{t("Logged in")}</dt>
      <dd>{t("{{count}} browsers", { count: sign_ins })}</dd>
      {locked_until !== null && (
        <>
          <dt>{t("Locked until")}</dt>
          <dd>{formatMoment(new Date(locked_until))}</dd>
        </>
      )}
    </dl>
  );
}

function Role({ user }: { user: User }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const change = useMutation({
    mutationFn: (role: "user" | "admin") => changeUser(user.name, { role }),
    onSuccess: () => notifyDone(t("The role was changed.")),
    onError: (error) => notifyProblem(t("The role stays"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: keys.users }),
  });
  return (
    <Select
      label={t("Role")}
      description={user.name === me.user.name ? t("Your own role is another administrator's to change.") : undefined}
      disabled={user.name === me.user.name || change.isPending}
      data={[
        { value: "user", label: t("User") },
        { value: "admin", label: t("Administrator") },
      ]}
      value={user.role}
      allowDeselect={false}
      onChange={(role) => {
        if (role !== null && role !== user.role) change.mutate(role === "admin" ? "admin" : "user");
      }}
    />
  );
}

type Act = "reset" | "factor" | "unlock" | "signout" | "impersonate" | "disable" | "enable";

function Actions({ user, protection }: { user: User; protection: Protection }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [asking, setAsking] = useState<Act | null>(null);
  const [link, setLink] = useState<{ url: string; expires_at: string } | null>(null);
  const { name } = user;
  const run = useMutation({
    mutationFn: async (act: Act): Promise<void> => {
      if (act === "reset") setLink(await makeResetLink(name));
      else if (act === "factor") await resetSecondFactor(name);
      else if (act === "unlock") await unlockUser(name);
      else if (act === "signout") await signOutUser(name);
      else if (act === "impersonate") await impersonate(name);
      else await changeUser(name, { disabled: act === "disable" });
    },
    onSuccess: (_, act) => {
      // Everything that was read as oneself is of no use now.
      if (act === "impersonate") window.location.assign("/");
      else if (act !== "reset") notifyDone(DONE[act]);
    },
    onError: (error) => notifyProblem(t("That was not done"), error),
    onSettled: () => {
      setAsking(null);
      void cache.invalidateQueries({ queryKey: keys.users });
      void cache.invalidateQueries({ queryKey: adminKeys.protection(name) });
    },
  });
  const DONE: Record<Exclude<Act, "reset" | "impersonate">, string> = {
    factor: t("{{name}} has no second factor now.", { name }),
    unlock: t("{{name}} may try again.", { name }),
    signout: t("{{name}} is logged out everywhere.", { name }),
    disable: t("{{name}} is disabled.", { name }),
    enable: t("{{name}} may log in again.", { name }),
  };
  const QUESTIONS: Partial<Record<Act, { title: string; action: string; text: string }>> = {
    factor: {
      title: t("Reset the second factor of {{name}}?", { name }),
      action: t("Reset it"),
      text: t("Be sure who asks for it. All their sign-ins end, and the next login needs the password alone."),
    },
    signout: {
      title: t("Log {{name}} out everywhere?", { name }),
      action: t("Log out"),
      text: t("Every browser has to log in again. Tokens and jobs go on."),
    },
    impersonate: {
      title: t("Look at the platform as {{name}}?", { name }),
      action: t("Go on"),
      text: t("For an hour at most, in this browser. Whatever you do is in the audit log with your name beside theirs."),
    },
    disable: {
      title: t("Disable {{name}}?", { name }),
      action: t("Disable"),
      text: t("They are logged out and can no longer log in; tokens stop working and sessions end. Jobs that run go on."),
    },
  };
  const question = asking === null ? undefined : QUESTIONS[asking];
  const start = (act: Act) => (QUESTIONS[act] === undefined ? run.mutate(act) : setAsking(act));
  const button = (act: Act, icon: ReactNode, label: string, red = false) => (
    <Button
      variant={red ? "outline" : "default"}
      {...(red ? { color: "red" } : {})}
      size="sm"
      justify="flex-start"
      leftSection={icon}
      loading={run.isPending && run.variables === act}
      onClick={() => start(act)}
      data-testid={`user-${act}`}
    >
      {label}
    </Button>
  );
  const own = name === me.user.name;
  return (
    <Stack gap="xs">
      {link !== null && (
        <Alert color="moon" title={t("A link to set a new password")}>
          <Text size="sm" className={classes.value} mb={6}>
            {link.url}
          </Text>
          <Group justify="space-between">
            <Text size="xs" c="dimmed">
              {t("Works once, until {{time}}. Hand it over by a way that is safe.", { time: formatMoment(new Date(link.expires_at)) })}
            </Text>
            <CopyButton text={link.url} what={t("the link")} />
          </Group>
        </Alert>
      )}
      {protection.locked_until !== null && button("unlock", <LockOpen size={15} />, t("Unlock"))}
      {protection.source === "password" && button("reset", <KeyRound size={15} />, t("Make a reset link"))}
      {protection.second_factor && button("factor", <ShieldOff size={15} />, t("Reset the second factor"))}
      {protection.sign_ins > 0 && !own && button("signout", <LogOut size={15} />, t("Log out everywhere"))}
      {!own && !user.disabled && button("impersonate", <Eye size={15} />, t("Look at the platform as {{name}}", { name }))}
      {!own && (user.disabled ? button("enable", <LockOpen size={15} />, t("Enable the account")) : button("disable", <UserX size={15} />, t("Disable the account"), true))}
      <Confirm
        opened={question !== undefined}
        title={question?.title ?? ""}
        action={question?.action ?? ""}
        keep={t("Cancel")}
        busy={run.isPending}
        onClose={() => setAsking(null)}
        onConfirm={() => {
          if (asking !== null) run.mutate(asking);
        }}
      >
        {question?.text}
      </Confirm>
    </Stack>
  );
}
