import { Group, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LogOut, Monitor, Smartphone, Terminal } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { DataTable } from "@/components/DataTable";
import { notifyDone, notifyProblem } from "@/components/notify";
import { QueryCard } from "@/components/QueryCard";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { describeDevice } from "@/lib/device";
import { accountKeys, revokeOtherSignIns, revokeSignIn, type SignIn, signInsQuery } from "./account";
import { sourceName } from "@/lib/sources";
import table from "@/components/table.module.css";
import classes from "./Account.module.css";

export function SignInsPage() {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const query = useQuery(signInsQuery);
  const [confirming, setConfirming] = useState<SignIn | "others" | null>(null);
  const end = useMutation({
    mutationFn: async (target: SignIn | "others") =>
      target === "others" ? revokeOtherSignIns() : revokeSignIn(target.id).then(() => 1),
    onSuccess: (count) => notifyDone(t("{{count}} logins ended.", { count })),
    onError: (error) => notifyProblem(t("Could not end the login"), error),
    onSettled: () => {
      setConfirming(null);
      void cache.invalidateQueries({ queryKey: accountKeys.signIns });
    },
  });
  const items = query.data?.items;
  const others = items?.some((each) => !each.current) ?? false;
  const columns: Column<SignIn>[] = [
    {
      header: t("Browser"),
      className: table.name,
      cell: ({ device, current, source }) => (
        <span className={classes.device}>
          <Device name={device} />
          <span>
            <strong>{describeDevice(device)}</strong> {current && <ToneBadge tone="good">{t("current")}</ToneBadge>}
            <Text size="xs" c="dimmed" component="div">
              {t("with {{source}}", { source: sourceName(source) })}
            </Text>
          </span>
        </span>
      ),
    },
    { header: t("Address"), cell: ({ address }) => address ?? <span className={table.dim}>{t("unknown")}</span> },
    { header: t("Logged in"), cell: ({ created_at }) => <RelativeTime at={created_at} /> },
    { header: t("Last used"), cell: ({ last_seen_at }) => <RelativeTime at={last_seen_at} /> },
  ];
  return (
    <>
      <Group justify="space-between" align="flex-start" mb="md">
        <Text size="sm" c="dimmed" maw={560}>
          {t("Browsers in which you are logged in. Log out unknown browsers and change your password.")}
        </Text>
        <ChangeButton
          variant="default"
          size="sm"
          leftSection={<LogOut size={16} />}
          disabled={!others}
          onClick={() => setConfirming("others")}
          data-testid="sign-out-others"
        >
          {t("Log out everywhere else")}
        </ChangeButton>
      </Group>
      <QueryCard query={query} items={items} rows={2} empty={null}>
        {(signIns) => (
          <DataTable
            columns={columns}
            rows={signIns}
            rowKey={({ id }) => id}
            rowTestId="sign-in"
            actions={(each) =>
              !each.current && (
                <ChangeButton variant="subtle" color="red" size="compact-sm" onClick={() => setConfirming(each)} aria-label={t("Log out {{device}}", { device: describeDevice(each.device) })}>
                  {t("Log out")}
                </ChangeButton>
              )
            }
          />
        )}
      </QueryCard>
      <Confirm
        opened={confirming !== null}
        title={confirming === "others" ? t("Log out everywhere else?") : t("End this login?")}
        action={t("Log out")}
        keep={t("Cancel")}
        busy={end.isPending}
        onClose={() => setConfirming(null)}
        onConfirm={() => {
          if (confirming !== null) end.mutate(confirming);
        }}
      >
        {confirming === "others"
          ? t("Only this browser stays logged in. Access tokens remain valid.")
          : t("The browser must log in again. Jobs and sessions continue.")}
      </Confirm>
    </>
  );
}

function Device({ name }: { name: string }) {
  if (/iPhone|Android/.test(name)) return <Smartphone size={18} aria-hidden />;
  if (/command line|curl/.test(name)) return <Terminal size={18} aria-hidden />;
  return <Monitor size={18} aria-hidden />;
}
