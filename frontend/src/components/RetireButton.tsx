import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Archive, ArchiveRestore } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { ChangeButton } from "@/components/ChangeButton";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";

interface Props {
  title: string;
  retired: boolean;
  /** Whether it is in the row of a table, and as small as the actions there. */
  inRow?: boolean;
  /** Consequences of retiring, shown in the confirmation. */
  children: string;
  queryKey: readonly unknown[];
  change: (retired: boolean) => Promise<unknown>;
}

/** Retires a version for new jobs after a confirmation, or restores it. */
export function RetireButton({ title, retired, inRow = false, children, queryKey, change }: Props) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [confirming, setConfirming] = useState(false);
  const toggle = useMutation({
    mutationFn: change,
    onSuccess: (_, isRetired) => notifyDone(isRetired ? t("{{title}} retired.", { title }) : t("{{title}} is available again.", { title })),
    onError: (error) => notifyProblem(t("{{title}} was not changed", { title }), error),
    onSettled: () => {
      setConfirming(false);
      void cache.invalidateQueries({ queryKey });
    },
  });
  if (retired) {
    return (
      <ChangeButton
        variant={inRow ? "subtle" : "default"}
        size={inRow ? "compact-sm" : "sm"}
        leftSection={<ArchiveRestore size={15} />}
        loading={toggle.isPending}
        onClick={() => toggle.mutate(false)}
        data-testid="catalog-offer"
      >
        {t("Restore")}
      </ChangeButton>
    );
  }
  return (
    <>
      <ChangeButton
        variant={inRow ? "subtle" : "outline"}
        color="red"
        size={inRow ? "compact-sm" : "sm"}
        leftSection={<Archive size={15} />}
        onClick={() => setConfirming(true)}
        data-testid="catalog-retire"
      >
        {t("Retire")}
      </ChangeButton>
      <Confirm
        opened={confirming}
        title={t("Retire {{title}}?", { title })}
        action={t("Retire")}
        busy={toggle.isPending}
        onClose={() => setConfirming(false)}
        onConfirm={() => toggle.mutate(true)}
      >
        {children}
      </Confirm>
    </>
  );
}
