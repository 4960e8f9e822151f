import { Alert, Group, Select, Skeleton, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Eye, KeyRound, LockOpen, LogOut, ShieldOff, UserX } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { changeUser } from "@/api/actions";
import { adminKeys, impersonate, makeResetLink, type Protection, protectionQuery, resetSecondFactor, signOutUser, unlockUser } from "@/api/admin";
import { keys, meQuery } from "@/api/queries";
import type { User } from "@/api/types";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { CopyButton } from "@/components/CopyButton";
import { Drawer } from "@/components/Drawer";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { formatMoment } from "@/lib/time";
import classes from "@/components/Admin.module.css";

/** Administrative actions for one account. */
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
              {t("Audit log")}
            </Link>
          </Group>
        </div>
        {protection.isPending && <Skeleton height={120} radius={8} />}
        {protection.isError && !protection.data && <PageError compact error={protection.error} onRetry={() => protection.refetch()} />}
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
      <dt>{t("Identity source")}</dt>
      <dd>{source === "password" ? t("this platform") : source}</dd>
      <dt>{t("Password")}</dt>
      <dd>{has_password ? t("set") : t("not set")}</dd>
      <dt>{t("Second factor")}</dt>
      <dd>{second_factor ? t("on") : t("off")}</dd>
      <dt>{t("Logins")}</dt>
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
    onSuccess: () => notifyDone(t("Role changed.")),
    onError: (error) => notifyProblem(t("Could not change the role"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: keys.users }),
  });
  return (
    <Select
      label={t("Role")}
      description={user.name === me.user.name ? t("Only another administrator can change your role.") : undefined}
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

type AccountAction = "reset" | "factor" | "unlock" | "signout" | "impersonate" | "disable" | "enable";

function Actions({ user, protection }: { user: User; protection: Protection }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const [pendingAction, setPendingAction] = useState<AccountAction | null>(null);
  const [link, setLink] = useState<{ url: string; expires_at: string } | null>(null);
  const { name } = user;
  const run = useMutation({
    mutationFn: async (action: AccountAction): Promise<void> => {
      if (action === "reset") setLink(await makeResetLink(name));
      else if (action === "factor") await resetSecondFactor(name);
      else if (action === "unlock") await unlockUser(name);
      else if (action === "signout") await signOutUser(name);
      else if (action === "impersonate") await impersonate(name);
      else await changeUser(name, { disabled: action === "disable" });
    },
    onSuccess: (_, action) => {
      // Reload, because all cached data belong to the administrator's own account.
      if (action === "impersonate") window.location.assign("/");
      else if (action !== "reset") notifyDone(SUCCESS_TEXTS[action]);
    },
    onError: (error) => notifyProblem(t("Action failed"), error),
    onSettled: () => {
      setPendingAction(null);
      void cache.invalidateQueries({ queryKey: keys.users });
      void cache.invalidateQueries({ queryKey: adminKeys.protection(name) });
    },
  });
  const SUCCESS_TEXTS: Record<Exclude<AccountAction, "reset" | "impersonate">, string> = {
    factor: t("Second factor of {{name}} reset.", { name }),
    unlock: t("{{name}} unlocked.", { name }),
    signout: t("{{name}} logged out everywhere.", { name }),
    disable: t("{{name}} disabled.", { name }),
    enable: t("{{name}} enabled.", { name }),
  };
  const CONFIRMATIONS: Partial<Record<AccountAction, { title: string; action: string; text: string }>> = {
    factor: {
      title: t("Reset the second factor of {{name}}?", { name }),
      action: t("Reset"),
      text: t("Verify the identity of the requester first. All logins of the user end, and the next login requires only the password."),
    },
    signout: {
      title: t("Log {{name}} out everywhere?", { name }),
      action: t("Log out"),
      text: t("All browsers must log in again. Tokens and jobs are not affected."),
    },
    impersonate: {
      title: t("Impersonate {{name}}?", { name }),
      action: t("Impersonate"),
      text: t("Limited to 1 hour and to this browser. The audit log records all actions with both names."),
    },
    disable: {
      title: t("Disable {{name}}?", { name }),
      action: t("Disable"),
      text: t("The user is logged out and cannot log in. Tokens stop working and sessions end. Running jobs continue."),
    },
  };
  const confirmation = pendingAction === null ? undefined : CONFIRMATIONS[pendingAction];
  const start = (action: AccountAction) => (CONFIRMATIONS[action] === undefined ? run.mutate(action) : setPendingAction(action));
  const button = (action: AccountAction, icon: ReactNode, label: string, red = false) => (
    <ChangeButton
      variant={red ? "outline" : "default"}
      {...(red ? { color: "red" } : {})}
      size="sm"
      justify="flex-start"
      leftSection={icon}
      loading={run.isPending && run.variables === action}
      onClick={() => start(action)}
      data-testid={`user-${action}`}
    >
      {label}
    </ChangeButton>
  );
  const own = name === me.user.name;
  return (
    <Stack gap="xs">
      {link !== null && (
        <Alert color="moon" title={t("Password reset link")}>
          <Text size="sm" className={classes.value} mb={6}>
            {link.url}
          </Text>
          <Group justify="space-between">
            <Text size="xs" c="dimmed">
              {t("Valid once, until {{time}}. Send it through a secure channel.", { time: formatMoment(new Date(link.expires_at)) })}
            </Text>
            <CopyButton text={link.url} what={t("the link")} />
          </Group>
        </Alert>
      )}
      {protection.locked_until !== null && button("unlock", <LockOpen size={15} />, t("Unlock"))}
      {protection.source === "password" && button("reset", <KeyRound size={15} />, t("Create reset link"))}
      {protection.second_factor && button("factor", <ShieldOff size={15} />, t("Reset second factor"))}
      {protection.sign_ins > 0 && !own && button("signout", <LogOut size={15} />, t("Log out everywhere"))}
      {!own && !user.disabled && button("impersonate", <Eye size={15} />, t("Impersonate {{name}}", { name }))}
      {!own && (user.disabled ? button("enable", <LockOpen size={15} />, t("Enable account")) : button("disable", <UserX size={15} />, t("Disable account"), true))}
      <Confirm
        opened={confirmation !== undefined}
        title={confirmation?.title ?? ""}
        action={confirmation?.action ?? ""}
        keep={t("Cancel")}
        busy={run.isPending}
        onClose={() => setPendingAction(null)}
        onConfirm={() => {
          if (pendingAction !== null) run.mutate(pendingAction);
        }}
      >
        {confirmation?.text}
      </Confirm>
    </Stack>
  );
}
