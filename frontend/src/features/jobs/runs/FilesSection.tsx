import { Skeleton, Text, Title } from "@mantine/core";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { meQuery } from "@/api/queries";
import { filesQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import tableClasses from "@/components/table.module.css";
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
          <div className={`${tableClasses.wrap ?? ""} ${classes.files ?? ""}`}>
            <table className={`${tableClasses.table ?? ""} tabular`} aria-label={t("Output files")}>
              <thead>
                <tr>
                  <th scope="col">{t("File")}</th>
                  <th scope="col" className={tableClasses.num}>
                    {t("Size")}
                  </th>
                  <th scope="col" className={tableClasses.num}>
                    {t("Modified")}
                  </th>
                </tr>
              </thead>
              <tbody>
                {result.files.slice(0, MAX_ROWS).map((file) => (
                  <tr key={file.path}>
                    <td className="mono" style={{ fontSize: 12.5, overflowWrap: "anywhere" }}>
                      {mayRead ? <FileLink jobId={job.id} path={file.path} /> : <bdi>{file.path}</bdi>}
                    </td>
                    <td data-label={t("Size")} className={tableClasses.num}>
                      {formatBytes(file.size_bytes)}
                    </td>
                    <td data-label={t("Modified")} className={tableClasses.num}>
                      <RelativeTime at={file.modified_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
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
