import { Skeleton, Text, Title } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { filesQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { DataTable } from "@/components/DataTable";
import { PageError } from "@/components/PageError";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { formatBytes } from "@/lib/units";
import { FileLink } from "./FileLink";
import classes from "./SnapshotPanel.module.css";

const MAX_ROWS = 100;

/** Files of the job's folder that were changed during the run. */
export function FilesSection({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(filesQuery(job.id, job.ended_at !== null));
  const result = query.data;
  const files = result?.files ?? [];
  const { data: me } = useSuspenseQuery(meQuery);
  // Others may see the list, but files are read as their owner.
  const mayRead = me.user.name === job.owner && me.impersonation === null;
  const columns: Column<(typeof files)[number]>[] = [
    {
      header: t("File"),
      cell: ({ path }) => (
        <span className="mono" style={{ fontSize: 12.5, overflowWrap: "anywhere" }}>
          {mayRead ? <FileLink jobId={job.id} path={path} /> : <bdi>{path}</bdi>}
        </span>
      ),
    },
    { header: t("Size"), align: "right", cell: (file) => formatBytes(file.size_bytes) },
    { header: t("Modified"), align: "right", cell: (file) => <RelativeTime at={file.modified_at} /> },
  ];
  return (
    <section className={classes.section} aria-label={t("Output files")} data-testid="files-written">
      <Title order={2} size="h6">
        {t("Output files")}
      </Title>
      {query.isPending && <Skeleton h={60} />}
      {query.isError && result === undefined && <PageError compact error={query.error} onRetry={() => query.refetch()} />}
      {result === null && (
        <Text size="sm" c="dimmed">
          {job.ended_at === null
            ? t("Output files are listed after the program has ended.")
            : t("Not recorded: the program did not start or was terminated.")}
        </Text>
      )}
      {result?.files.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("No files in {{folder}} were changed during the run.", { folder: result.folder })}
        </Text>
      )}
      {result && files.length > 0 && (
        <>
          <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            {result.cut
              ? t("Newest files in {{folder}}. The list is incomplete.", { folder: result.folder })
              : t("Files in {{folder}}, newest first.", { folder: result.folder })}
          </Text>
          <DataTable caption={t("Output files")} columns={columns} rows={files.slice(0, MAX_ROWS)} rowKey={(file) => file.path} className={classes.files} />
          {result.files.length > MAX_ROWS && (
            <Text size="sm" c="dimmed">
              <CodeText>{t("{{count}} more. Run `aitne get --list` to list all.", { count: result.files.length - MAX_ROWS })}</CodeText>
            </Text>
          )}
        </>
      )}
    </section>
  );
}
