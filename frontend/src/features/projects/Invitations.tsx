import { Button, Group, NumberInput, Select, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { createInvitation, type Invitation, invitationsQuery, type ProjectRole, projectKeys, revokeInvitation } from "@/api/projects";
import { ChangeButton } from "@/components/ChangeButton";
import { CopyButton } from "@/components/CopyButton";
import { FormDialog } from "@/components/FormDialog";
import { notifyDone, notifyProblem } from "@/components/notify";
import { SharedAccountNote } from "@/components/SharedAccountNote";
import { RelativeTime } from "@/components/Time";
import { useSlowNow } from "@/hooks/use-now";
import { isOpen, roleLabel } from "./projects";
import classes from "./Projects.module.css";

/** Invitations that are still valid. */
export function Invitations({ name }: { name: string }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  const open = useQuery(invitationsQuery(name)).data?.items.filter((invitation) => isOpen(invitation, now)) ?? [];
  if (open.length === 0) return null;
  return (
    <section className="card" aria-labelledby="invitations-title">
      <Title order={2} size="h5" px="lg" pt="md" pb="xs" id="invitations-title">
        {t("Open invitations")}
      </Title>
      <ul className={classes.plain}>
        {open.map((invitation) => (
          <InvitationRow key={invitation.id} name={name} invitation={invitation} />
        ))}
      </ul>
    </section>
  );
}

function InvitationRow({ name, invitation }: { name: string; invitation: Invitation }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const revoke = useMutation({
    mutationFn: () => revokeInvitation(name, invitation.id),
    onSuccess: () => notifyDone(t("Invitation revoked.")),
    onError: (error) => notifyProblem(t("The invitation was not revoked"), error),
    onSettled: () => void cache.invalidateQueries({ queryKey: projectKeys.one(name) }),
  });
  return (
    <li className={classes.line} data-testid="invitation">
      <span>
        {roleLabel(invitation.role)} · {t("{{uses}} of {{most}} joined", { uses: invitation.uses, most: invitation.max_uses })} ·{" "}
        {t("created by {{who}}", { who: invitation.created_by })} ·{" "}
        <Text span size="sm" c="dimmed">
          {t("expires")} <RelativeTime at={invitation.expires_at} />
        </Text>
      </span>
      <ChangeButton variant="subtle" color="red" size="compact-sm" loading={revoke.isPending} onClick={() => revoke.mutate()} data-testid="invitation-revoke">
        {t("Revoke")}
      </ChangeButton>
    </li>
  );
}

/** Creates an invitation link and shows it once. */
export function InviteModal({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [role, setRole] = useState<ProjectRole>("member");
  const [uses, setUses] = useState(1);
  const [days, setDays] = useState("7");
  const create = useMutation({
    mutationFn: () => createInvitation(name, { role, max_uses: uses, lifetime: `${Number(days)}d` }),
    onSuccess: () => void cache.invalidateQueries({ queryKey: projectKeys.one(name) }),
  });
  return (
    <FormDialog
      title={t("Invite to {{name}}", { name })}
      action={t("Create link")}
      testId="invite-make"
      busy={create.isPending}
      error={create.error}
      onClose={onClose}
      onSubmit={create.mutate}
      result={
        create.data && (
          <>
            <Text size="sm">{t("Users who open this link and log in can join the project. The link is shown only once; copy it now.")}</Text>
            <Group gap="xs" wrap="nowrap" align="center">
              <code className="mono truncate" style={{ flex: 1, padding: "8px 10px", borderRadius: 8, background: "var(--well)" }} data-testid="invite-link">
                {create.data.url}
              </code>
              <CopyButton text={create.data.url} what={t("link")} />
            </Group>
            <Button onClick={onClose} data-testid="invite-done">
              {t("Done")}
            </Button>
          </>
        )
      }
    >
      <SharedAccountNote />
      <Select
        label={t("Role")}
        data={[
          { value: "member", label: roleLabel("member") },
          { value: "manager", label: roleLabel("manager") },
        ]}
        value={role}
        allowDeselect={false}
        onChange={(next) => setRole(next === "manager" ? "manager" : "member")}
      />
      <Group grow align="flex-end">
        <NumberInput
          label={t("Maximum uses")}
          value={uses}
          min={1}
          max={1_000}
          allowDecimal={false}
          onChange={(value) => setUses(typeof value === "number" ? value : 1)}
        />
        <Select
          label={t("Expires after")}
          data={[
            { value: "1", label: t("{{count}} days", { count: 1 }) },
            { value: "7", label: t("{{count}} days", { count: 7 }) },
            { value: "30", label: t("{{count}} days", { count: 30 }) },
            { value: "90", label: t("{{count}} days", { count: 90 }) },
          ]}
          value={days}
          allowDeselect={false}
          onChange={(next) => setDays(next ?? "7")}
        />
      </Group>
    </FormDialog>
  );
}
