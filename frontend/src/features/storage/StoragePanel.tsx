import { Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { jobFoldersQuery, storageQuery } from "@/api/catalog";
import { PageError } from "@/components/PageError";
import { PanelSkeleton } from "@/components/PanelSkeleton";
import { formatBytes } from "@/lib/units";
import { StorageBars } from "./StorageBars";
import classes from "@/components/Dashboard.module.css";

/** The user's storage areas, or why there are none without an account on the cluster. */
export function StoragePanel() {
  const { t } = useTranslation();
  const storage = useQuery(storageQuery);
  const { data: folders } = useQuery(jobFoldersQuery);
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="storage-title">
      <Title order={2} size="h5" mb="sm" id="storage-title">
        {t("Storage")}
      </Title>
      {storage.isPending && <PanelSkeleton rows={2} />}
      {storage.isError && !storage.data && <PageError compact error={storage.error} onRetry={() => storage.refetch()} />}
      {storage.data?.account === null && (
        <Text size="sm" c="dimmed" data-testid="storage-none">
          {storage.data.problems.join(" ")}
        </Text>
      )}
      {storage.data && storage.data.areas.length > 0 && <StorageBars areas={storage.data.areas} />}
      {folders !== undefined && folders.jobs > 0 && (
        <Text size="sm" c="dimmed" mt="sm" data-testid="storage-jobs">
          {t("The folders of {{count}} ended jobs take {{size}}.", { count: folders.jobs, size: formatBytes(folders.size_bytes) })}
        </Text>
      )}
    </section>
  );
}
