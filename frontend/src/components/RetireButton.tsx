import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Archive, ArchiveRestore } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Confirm } from "@/components/Confirm";
import { notifyDone, notifyProblem } from "@/components/notify";

interface Props {
  title: string;
  retired: boolean;
  /** What retiring means, said before it is done. */
  children: string;
  queryKey: readonly unknown[];
  change: (retired: boolean) => Promise<unknown>;
}

/** Takes a version out of what new jobs may use, after asking; or brings it back. */
export function RetireButton({ title, retired, children, queryKey, change }: Props) {
  const { t } = useTranslation();
  const cache = useQueryClient();
  const [asking, setAsking] = useState(false);
  const turn = useMutation({
    mutationFn: change,
    onSuccess: (_, now) => notifyDone(now ? t("{{title}} is retired.", { title }) : t("New jobs may use {{title}} again.", { title })),
    onError: (error) => notifyProblem(t("{{title}} stays as it was", { title }), error),
    onSettled: () => {
      setAsking(false);
      void cache.invalidateQueries({ queryKey });
    },
  });
  if (retired) {
    return (
      <Button
        variant="default"
        size="sm"
        leftSection={<ArchiveRestore size={15} />}
        loading={turn.isPending}
        onClick={() => turn.mutate(false)}
        data-testid="catalog-offer"
      >
        {t("Offer again")}
      </Button>
    );
  }
  return (
    <>
      <Button
        variant="outline"
        color="red"
        size="sm"
        leftSection={<Archive size={15} />}
        onClick={() => setAsking(true)}
        data-testid="catalog-retire"
      >
        {t("Retire")}
      </Button>
      <Confirm
        opened={asking}
        title={t("Retire {{title}}?", { title })}
        action={t("Retire")}
        busy={turn.isPending}
        onClose={() => setAsking(false)}
        onConfirm={() => turn.mutate(true)}
      >
        {children}
      </Confirm>
    </>
  );
}
