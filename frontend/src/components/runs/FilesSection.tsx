import { Skeleton, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { filesQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { PageError } from "@/components/PageError";
import { RelativeTime } from "@/components/Time";
import tableClasses from "@/components/table.module.css";
import { formatBytes } from "@/lib/units";
import classes from "./SnapshotPanel.module.css";

const MOST_ROWS = 100;

/** The files of the job's folder that were changed while it ran. */
export function FilesSection({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(filesQuery(job.id, job.ended_at !== null));
  const found = query.data;
  const listed = found?.files ?? [];
  return (
    <section className={classes.section} aria-label={t("Files written")} data-testid="files-written">
      <Title order={2} size="h6">
        {t("Files written")}
      </Title>
      {query.isPending && <Skeleton h={60} />}
      {query.isError && found === undefined && <PageError compact error={query.error} onRetry={() => void query.refetch()} />}
      {found === null && (
        <Text size="sm" c="dimmed">
          {job.ended_at === null
            ? t("They are listed when the program has ended.")
            : t("Nobody has looked: the program did not end by itself, or never began.")}
        </Text>
      )}
      {found?.files.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("Nothing in {{folder}} was changed while it ran.", { folder: found.folder })}
        </Text>
      )}
      {found && listed.length > 0 && (
        <>
          <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
            {found.cut
              ? t("The newest in {{folder}}; there is more than was looked at.", { folder: found.folder })
              : t("In {{folder}}, newest first.", { folder: found.folder })}
          </Text>
          <div className={`${tableClasses.wrap ?? ""} ${classes.files ?? ""}`}>
            <table className={`${tableClasses.table ?? ""} tabular`} aria-label={t("Files written")}>
              <thead>
                <tr>
                  <th scope="col">{t("File")}</th>
                  <th scope="col" className={tableClasses.num}>
                    {t("Size")}
                  </th>
                  <th scope="col" className={tableClasses.num}>
                    {t("Changed")}
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.files.slice(0, MOST_ROWS).map((file) => (
                  <tr key={file.path}>
                    <td className="mono" style={{ fontSize: 12.5, overflowWrap: "anywhere" }}>
                      {file.path}
                    </td>
                    <td data-label={t("Size")} className={tableClasses.num}>
                      {formatBytes(file.size_bytes)}
                    </td>
                    <td data-label={t("Changed")} className={tableClasses.num}>
                      <RelativeTime at={file.modified_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {found.files.length > MOST_ROWS && (
            <Text size="sm" c="dimmed">
              {t("{{count}} more: `aitne files` lists them all.", { count: found.files.length - MOST_ROWS })}
            </Text>
          )}
        </>
      )}
    </section>
  );
}
