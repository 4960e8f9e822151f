import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { storageQuery } from "@/api/catalog";
import { StorageBars } from "@/features/storage/StorageBars";
import classes from "./LaunchDrawer.module.css";

/** The storage areas of the job; renders nothing if they are unknown. */
export function LaunchStorage({ project }: { project: string }) {
  const { t } = useTranslation();
  const { data } = useQuery(storageQuery);
  const areas = (data?.areas ?? []).filter(({ area }) => area.project === null || area.project === project);
  if (areas.length === 0) return null;
  return (
    <fieldset className={classes.group}>
      <legend className={classes.legend}>{t("Storage")}</legend>
      <StorageBars areas={areas} />
    </fieldset>
  );
}
