import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { Confirm } from "@/components/Confirm";
import { ranksOf } from "./ranks";

interface Props {
  group: Job;
  opened: boolean;
  busy: boolean;
  onClose: () => void;
  onConfirm: () => void;
}

/** Asks before ranks are released: what they have in memory is lost, and what runs on them ends. */
export function ReleaseConfirm({ group, ...dialog }: Props) {
  const { t } = useTranslation();
  return (
    <Confirm title={t("Release {{count}} ranks?", { count: ranksOf(group) })} action={t("Release ranks")} keep={t("Keep ranks")} {...dialog}>
      {t("Cells that run on these ranks are interrupted, and what the ranks have in memory is lost. The notebook's kernel and its variables are kept. Pull or save what is needed first.")}
    </Confirm>
  );
}
