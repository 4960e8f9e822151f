import { ActionIcon, Button, Group, Menu, Text, TextInput, Title, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import i18next from "i18next";
import { Ellipsis, Gauge, LogOut, Send, ShieldCheck, ShieldOff, UserPlus, UserX } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { limitsQuery, type Limits, type LimitsInput, type Member, membersQuery, type Project, projectKeys, putMember, removeMember } from "@/api/projects";
import { meQuery } from "@/api/queries";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { DataTable } from "@/components/DataTable";
import { FormDialog } from "@/components/FormDialog";
import { Modal } from "@/components/Modal";
import { notifyDone, notifyProblem } from "@/components/notify";
import type { Column } from "@/components/table";
import { ToneBadge } from "@/components/ToneBadge";
import { useRefusal } from "@/hooks/use-refusal";
import { Invitations, InviteModal } from "./Invitations";
import { limitAmount, limitRows, limitsSaved } from "./limits";
import { LimitsForm } from "./LimitsForm";
import { type Rights, roleLabel } from "./projects";
import classes from "./Projects.module.css";

type OpenDialog = { member: Member; kind: "remove" | "limits" } | null;

export function Members({ project, rights, me }: { project: Project; rights: Rights; me: string }) {
  const { t } = useTranslation();
  const query = useQuery(membersQuery(project.name));
  const limits = useQuery(limitsQuery(project.name)).data?.value;
  const [adding, setAdding] = useState<"invite" | "name" | null>(null);
  const [dialog, setDialog] = useState<OpenDialog>(null);
  const change = useMemberChanges(project.name);
  const active = project.state === "active";
  const gpus = limits?.use.find((entry) => entry.limit === "max_gpus")?.by_user ?? {};
  const columns: Column<Member>[] = [
    {
      header: t("Member"),
      cell: (member) => (
        <>
          <strong>{member.user}</strong>
          {member.in_slurm === false && (
            <Tooltip label={t("Not active in Slurm until an administrator runs: aitne admin sync")} multiline maw={280}>
              <span style={{ marginLeft: 8 }}>
                <ToneBadge tone="waiting">{t("not yet in Slurm")}</ToneBadge>
              </span>
            </Tooltip>
          )}
        </>
      ),
    },
    { header: t("Role"), cell: (member) => roleLabel(member.role) },
    { header: t("Own limits"), dim: true, cell: (member) => (limits === undefined ? "" : ownLimits(member.limits, limits) || t("none")) },
    { header: t("GPUs in use"), align: "right", cell: (member) => gpus[member.user] ?? 0 },
  ];
  return (
    <div className={classes.column}>
      <section className="card" style={{ overflow: "hidden" }} aria-labelledby="members-title">
        <div className={classes.panelHead}>
          <Title order={2} size="h5" id="members-title">
            {t("Members")}
          </Title>
          {rights.manages && active && (
            <Group gap="xs">
              <ChangeButton size="sm" variant="default" leftSection={<UserPlus size={15} />} onClick={() => setAdding("name")} data-testid="member-add">
                {t("Add by name")}
              </ChangeButton>
              <ChangeButton size="sm" leftSection={<Send size={15} />} onClick={() => setAdding("invite")} data-testid="invite">
                {t("Invite by link")}
              </ChangeButton>
            </Group>
          )}
        </div>
        <DataTable
          columns={columns}
          query={query}
          rows={query.data?.items}
          rowKey={(member) => member.user}
          rowTestId="member-row"
          actions={(member) =>
            (rights.manages || member.user === me) && (
              <MemberMenu
                member={member}
                manages={rights.manages}
                self={member.user === me}
                onRole={(role) => change.role.mutate({ user: member.user, role })}
                onOpen={(kind) => setDialog({ member, kind })}
              />
            )
          }
        />
      </section>
      {rights.manages && <Invitations name={project.name} />}
      {adding === "invite" && <InviteModal name={project.name} onClose={() => setAdding(null)} />}
      {adding === "name" && <AddModal name={project.name} onClose={() => setAdding(null)} />}
      {dialog?.kind === "limits" && <MemberLimits project={project.name} member={dialog.member} onClose={() => setDialog(null)} />}
      <Confirm
        opened={dialog?.kind === "remove"}
        title={dialog?.member.user === me ? t("Leave {{project}}?", { project: project.name }) : t("Remove {{user}}?", { user: dialog?.member.user ?? "" })}
        action={dialog?.member.user === me ? t("Leave") : t("Remove")}
        keep={t("Cancel")}
        busy={change.remove.isPending}
        onClose={() => setDialog(null)}
        onConfirm={() => dialog && change.remove.mutate(dialog.member, { onSettled: () => setDialog(null) })}
      >
        {dialog?.member.user === me
          ? t("You lose access to the project's jobs and data and cannot start jobs in it. Running jobs continue.")
          : t("The member loses access to the project's jobs and data and cannot start jobs in it. Running jobs continue.")}
      </Confirm>
    </div>
  );
}

/** The member's effective limits, lowered to the project's where those are smaller. */
function ownLimits(own: Limits, all: Parameters<typeof limitRows>[0]): string {
  const within = new Map(limitRows({ ...all, use: [] }).map((row) => [row.name, row.most]));
  return limitRows({ ...all, limits: own, use: [] })
    .flatMap(({ name, title, most }) => {
      if (most === null) return [];
      const effective = Math.min(most, within.get(name) ?? most);
      const lowered = effective < most ? ` (${i18next.t("limited by the project; own limit: {{own}}", { own: limitAmount(name, most) })})` : "";
      return [`${title} ${limitAmount(name, effective)}${lowered}`];
    })
    .join(", ");
}

function useMemberChanges(name: string) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const refresh = () => {
    void cache.invalidateQueries({ queryKey: projectKeys.all });
    void cache.invalidateQueries({ queryKey: ["me"] });
  };
  const restore = useMutation({
    mutationFn: (member: Member) => putMember(name, member.user, { role: member.role, limits: member.limits }),
    onSuccess: (member) => notifyDone(t("{{user}} restored.", { user: member.user })),
    onError: (error) => notifyProblem(t("Undo failed"), error),
    onSettled: refresh,
  });
  const remove = useMutation({
    mutationFn: (member: Member) => removeMember(name, member.user),
    onSuccess: (_, member) => {
      const id = `removed-${name}-${member.user}`;
      notifications.show({
        id,
        color: "moon",
        autoClose: 12_000,
        role: "status",
        message: (
          <>
            {t("{{user}} removed.", { user: member.user })}{" "}
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() => {
                notifications.hide(id);
                restore.mutate(member);
              }}
              data-testid="undo"
            >
              {t("Undo")}
            </Button>
          </>
        ),
      });
    },
    onError: (error) => notifyProblem(t("The member was not changed"), error),
    onSettled: refresh,
  });
  const role = useMutation({
    mutationFn: ({ user, role: next }: { user: string; role: "member" | "manager" }) => putMember(name, user, { role: next }),
    onSuccess: (member) => notifyDone(t("{{user}}: {{role}}", { user: member.user, role: roleLabel(member.role) })),
    onError: (error) => notifyProblem(t("The member was not changed"), error),
    onSettled: refresh,
  });
  return { remove, role };
}

interface MenuProps {
  member: Member;
  manages: boolean;
  self: boolean;
  onRole: (role: "member" | "manager") => void;
  onOpen: (kind: "remove" | "limits") => void;
}

function MemberMenu({ member, manages, self, onRole, onOpen }: MenuProps) {
  const { t } = useTranslation();
  const refusal = useRefusal();
  const isManager = member.role === "manager";
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={t("Actions for {{user}}", { user: member.user })} data-testid="member-menu">
          <Ellipsis size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {refusal !== null && <Menu.Label>{refusal}</Menu.Label>}
        {manages && (
          <>
            <Menu.Item
              leftSection={isManager ? <ShieldOff size={15} /> : <ShieldCheck size={15} />}
              disabled={refusal !== null}
              onClick={() => onRole(isManager ? "member" : "manager")}
            >
              {isManager ? t("Change role to member") : t("Change role to manager")}
            </Menu.Item>
            <Menu.Item leftSection={<Gauge size={15} />} disabled={refusal !== null} onClick={() => onOpen("limits")}>
              {t("Own limits…")}
            </Menu.Item>
          </>
        )}
        <Menu.Item color="red" leftSection={self ? <LogOut size={15} /> : <UserX size={15} />} disabled={refusal !== null} onClick={() => onOpen("remove")}>
          {self ? t("Leave…") : t("Remove…")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function AddModal({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [user, setUser] = useState("");
  const add = useMutation({
    mutationFn: () => putMember(name, user.trim(), {}),
    onSuccess: (member) => {
      void cache.invalidateQueries({ queryKey: projectKeys.all });
      notifyDone(
        member.in_slurm === false
          ? t("{{user}} added. Applied to Slurm at the next sync.", { user: member.user })
          : t("{{user}} added.", { user: member.user }),
      );
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("Add member")}
      action={t("Add")}
      testId="member-add-yes"
      size="sm"
      busy={add.isPending}
      disabled={user.trim() === ""}
      error={add.error}
      onClose={onClose}
      onSubmit={add.mutate}
    >
      <TextInput
        label={t("Login name")}
        value={user}
        onChange={(event) => setUser(event.currentTarget.value)}
        autoCapitalize="none"
        spellCheck={false}
        autoComplete="off"
        data-autofocus
      />
    </FormDialog>
  );
}

function MemberLimits({ project, member, onClose }: { project: string; member: Member; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const within = useQuery(limitsQuery(project)).data?.value.limits;
  const { data: me } = useSuspenseQuery(meQuery);
  const applied = me.platform.limits_applied;
  const save = useMutation({
    mutationFn: (limits: LimitsInput) => putMember(project, member.user, { limits }),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.one(project) });
      notifyDone(limitsSaved(applied));
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Limits of {{user}}", { user: member.user })}</strong>} size="lg">
      <Text size="sm" c="dimmed" mb="md">
        {t("Cannot exceed the project's limits. Leave blank for no own limit.")}
      </Text>
      <LimitsForm
        limits={member.limits}
        {...(within ? { within } : {})}
        prefix="limits."
        busy={save.isPending}
        error={save.error}
        onSave={(value) => save.mutate(value)}
      />
    </Modal>
  );
}
