import { ActionIcon, Button, Group, Menu, Modal, Text, TextInput, Title, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import i18next from "i18next";
import { Ellipsis, Gauge, LogOut, Send, ShieldCheck, ShieldOff, UserPlus, UserX } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { limitsQuery, type Limits, type LimitsWish, type Member, membersQuery, type Project, projectKeys, putMember, removeMember } from "@/api/projects";
import { Confirm } from "@/components/Confirm";
import { FormModal } from "@/components/FormModal";
import { notifyDone, notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { Invitations, InviteModal } from "@/components/projects/Invitations";
import { LimitsForm } from "@/components/projects/LimitsForm";
import { TableSkeleton } from "@/components/TableSkeleton";
import { ToneBadge } from "@/components/ToneBadge";
import tableClasses from "@/components/table.module.css";
import { limitAmount, limitRows } from "@/lib/limits";
import { type Rights, roleLabel } from "@/lib/projects";
import classes from "./Projects.module.css";

type Asking = { member: Member; what: "remove" | "limits" } | null;

export function Members({ project, rights, me }: { project: Project; rights: Rights; me: string }) {
  const { t } = useTranslation();
  const query = useQuery(membersQuery(project.name));
  const limits = useQuery(limitsQuery(project.name)).data?.value;
  const [adding, setAdding] = useState<"invite" | "name" | null>(null);
  const [asking, setAsking] = useState<Asking>(null);
  const change = useMemberChanges(project.name);
  const members = query.data?.items;
  const active = project.state === "active";
  const gpus = limits?.use.find((each) => each.limit === "max_gpus")?.by ?? {};
  return (
    <div className={classes.column}>
      <section className="card" style={{ overflow: "hidden" }} aria-labelledby="members-title">
        <div className={classes.panelHead}>
          <Title order={2} size="h5" id="members-title">
            {t("Members")}
          </Title>
          {rights.manages && active && (
            <Group gap="xs">
              <Button size="sm" variant="default" leftSection={<UserPlus size={15} />} onClick={() => setAdding("name")} data-testid="member-add">
                {t("Add by name")}
              </Button>
              <Button size="sm" leftSection={<Send size={15} />} onClick={() => setAdding("invite")} data-testid="invite">
                {t("Invite by link")}
              </Button>
            </Group>
          )}
        </div>
        {query.isPending && <TableSkeleton rows={3} />}
        {query.isError && !members && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
        {members && (
          <div className={tableClasses.wrap}>
            <table className={tableClasses.table}>
              <thead>
                <tr>
                  <th scope="col">{t("Member")}</th>
                  <th scope="col">{t("Role")}</th>
                  <th scope="col">{t("Own limits")}</th>
                  <th scope="col" className={tableClasses.num}>{t("GPUs in use")}</th>
                  <th scope="col">
                    <span className="visually-hidden">{t("Actions")}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {members.map((member) => (
                  <tr key={member.user} data-testid="member-row">
                    <td>
                      <strong>{member.user}</strong>
                      {member.in_slurm === false && (
                        <Tooltip label={t("Slurm lets them work here once an administrator has brought it in line: aitne admin sync")} multiline maw={280}>
                          <span style={{ marginLeft: 8 }}>
                            <ToneBadge tone="waiting">{t("not yet in Slurm")}</ToneBadge>
                          </span>
                        </Tooltip>
                      )}
                    </td>
                    <td data-label={t("Role")}>{roleLabel(member.role)}</td>
                    <td data-label={t("Own limits")} className={tableClasses.dim}>
                      {limits === undefined ? "" : ownLimits(member.limits, limits) || t("none")}
                    </td>
                    <td data-label={t("GPUs in use")} className={tableClasses.num}>{gpus[member.user] ?? 0}</td>
                    <td className={tableClasses.num}>
                      {(rights.manages || member.user === me) && (
                        <MemberMenu
                          member={member}
                          manages={rights.manages}
                          self={member.user === me}
                          onRole={(role) => change.role.mutate({ user: member.user, role })}
                          onAsk={(what) => setAsking({ member, what })}
                        />
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      {rights.manages && <Invitations name={project.name} />}
      {adding === "invite" && <InviteModal name={project.name} onClose={() => setAdding(null)} />}
      {adding === "name" && <AddModal name={project.name} onClose={() => setAdding(null)} />}
      {asking?.what === "limits" && <MemberLimits project={project.name} member={asking.member} onClose={() => setAsking(null)} />}
      <Confirm
        opened={asking?.what === "remove"}
        title={asking?.member.user === me ? t("Leave {{project}}?", { project: project.name }) : t("Take {{user}} out?", { user: asking?.member.user ?? "" })}
        action={asking?.member.user === me ? t("Leave") : t("Take out")}
        keep={t("Stay")}
        busy={change.remove.isPending}
        onClose={() => setAsking(null)}
        onConfirm={() => asking && change.remove.mutate(asking.member, { onSettled: () => setAsking(null) })}
      >
        {asking?.member.user === me
          ? t("You no longer see its jobs and data, and start no jobs in it. What runs goes on.")
          : t("They no longer see its jobs and data, and start no jobs in it. What runs goes on.")}
      </Confirm>
    </div>
  );
}

/** What holds of them: where the project has less by now, that. */
function ownLimits(own: Limits, all: Parameters<typeof limitRows>[0]): string {
  const within = new Map(limitRows({ ...all, use: [] }).map((row) => [row.name, row.most]));
  return limitRows({ ...all, limits: own, use: [] })
    .flatMap(({ name, title, most }) => {
      if (most === null) return [];
      const held = Math.min(most, within.get(name) ?? most);
      const lowered = held < most ? ` (${i18next.t("the project's; {{own}} of their own", { own: limitAmount(name, most) })})` : "";
      return [`${title} ${limitAmount(name, held)}${lowered}`];
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
  const back = useMutation({
    mutationFn: (member: Member) => putMember(name, member.user, { role: member.role, limits: member.limits }),
    onSuccess: (member) => notifyDone(t("{{user}} is back.", { user: member.user })),
    onError: (error) => notifyProblem(t("It could not be undone"), error),
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
            {t("{{user}} is no member any more.", { user: member.user })}{" "}
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() => {
                notifications.hide(id);
                back.mutate(member);
              }}
              data-testid="undo"
            >
              {t("Undo")}
            </Button>
          </>
        ),
      });
    },
    onError: (error) => notifyProblem(t("It stays as it was"), error),
    onSettled: refresh,
  });
  const role = useMutation({
    mutationFn: ({ user, role: next }: { user: string; role: "member" | "manager" }) => putMember(name, user, { role: next }),
    onSuccess: (member) => notifyDone(t("{{user}}: {{role}}", { user: member.user, role: roleLabel(member.role) })),
    onError: (error) => notifyProblem(t("It stays as it was"), error),
    onSettled: refresh,
  });
  return { remove, role };
}

interface MenuProps {
  member: Member;
  manages: boolean;
  self: boolean;
  onRole: (role: "member" | "manager") => void;
  onAsk: (what: "remove" | "limits") => void;
}

function MemberMenu({ member, manages, self, onRole, onAsk }: MenuProps) {
  const { t } = useTranslation();
  const leads = member.role === "manager";
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={t("Actions for {{user}}", { user: member.user })} data-testid="member-menu">
          <Ellipsis size={17} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {manages && (
          <>
            <Menu.Item
              leftSection={leads ? <ShieldOff size={15} /> : <ShieldCheck size={15} />}
              onClick={() => onRole(leads ? "member" : "manager")}
            >
              {leads ? t("Make a member") : t("Make a manager")}
            </Menu.Item>
            <Menu.Item leftSection={<Gauge size={15} />} onClick={() => onAsk("limits")}>
              {t("Own limits …")}
            </Menu.Item>
          </>
        )}
        <Menu.Item color="red" leftSection={self ? <LogOut size={15} /> : <UserX size={15} />} onClick={() => onAsk("remove")}>
          {self ? t("Leave …") : t("Take out …")}
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
          ? t("{{user}} is a member. Slurm knows it once an administrator has brought it in line.", { user: member.user })
          : t("{{user}} is a member.", { user: member.user }),
      );
      onClose();
    },
  });
  return (
    <FormModal
      title={t("Add a member")}
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
    </FormModal>
  );
}

function MemberLimits({ project, member, onClose }: { project: string; member: Member; onClose: () => void }) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const within = useQuery(limitsQuery(project)).data?.value.limits;
  const save = useMutation({
    mutationFn: (limits: LimitsWish) => putMember(project, member.user, { limits }),
    onSuccess: () => {
      void cache.invalidateQueries({ queryKey: projectKeys.one(project) });
      notifyDone(t("The limits are saved. Slurm holds to them once an administrator has brought it in line."));
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={<strong>{t("Limits of {{user}}", { user: member.user })}</strong>} size="lg">
      <Text size="sm" c="dimmed" mb="md">
        {t("Within those of the project. Empty: no limit of their own.")}
      </Text>
      <LimitsForm
        limits={member.limits}
        {...(within ? { within } : {})}
        prefix="limits."
        busy={save.isPending}
        error={save.error}
        onSave={(wish) => save.mutate(wish)}
      />
    </Modal>
  );
}
