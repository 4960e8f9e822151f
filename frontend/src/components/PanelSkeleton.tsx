import { Skeleton } from "@mantine/core";
import { useTranslation } from "react-i18next";

export function PanelSkeleton({ rows }: { rows: number }) {
  const { t } = useTranslation();
  return (
    <div aria-busy="true">
      <span className="visually-hidden">{t("Loading")}</span>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} h={18} mb={14} />
      ))}
    </div>
  );
}
