import { Text } from "@mantine/core";
import { TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import type { AreaFacts } from "@/api/catalog";
import { UsageBar } from "@/components/Capacity";
import { type StorageRow, storageRows } from "./storage";
import classes from "./StorageBars.module.css";

/** Storage areas of a user and the user's projects with usage and warnings. */
export function StorageBars({ areas }: { areas: readonly AreaFacts[] }) {
  return (
    <ul className={classes.list}>
      {storageRows(areas).map((row) => (
        <Row key={row.key} row={row} />
      ))}
    </ul>
  );
}

function Row({ row }: { row: StorageRow }) {
  const { t } = useTranslation();
  return (
    <li className={classes.row} data-testid="storage-row">
      <div className={classes.head}>
        <strong className={classes.title}>{row.title}</strong>
        <span className={`${classes.amount ?? ""} tabular`}>{row.text}</span>
      </div>
      {row.used !== null && row.total !== null && <UsageBar used={row.used} total={row.total} label={t("{{title}} in use", { title: row.title })} thin />}
      {row.warning !== null && (
        <span className={classes.warning}>
          <TriangleAlert size={14} aria-hidden />
          {row.warning}
        </span>
      )}
      <Text span size="xs" c="dimmed" className="mono truncate" title={row.path}>
        {row.path}
      </Text>
    </li>
  );
}
