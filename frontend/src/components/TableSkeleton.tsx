import { Skeleton } from "@mantine/core";
import { useTranslation } from "react-i18next";

export function TableSkeleton({ rows = 8 }: { rows?: number }) {
  const { t } = useTranslation();
  return (
    <div style={{ padding: "16px 20px" }} aria-busy="true">
      <span className="visually-hidden">{t("Loading")}</span>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} h={16} my={18} w={`${92 - ((row * 13) % 30)}%`} />
      ))}
    </div>
  );
}
