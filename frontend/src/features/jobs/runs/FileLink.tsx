import { Anchor, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { API, getRaw } from "@/api/client";
import { notifyProblem } from "@/components/notify";
import { outputAddress } from "./output-files";

interface Props {
  jobId: string;
  /** Path below the job's folder. */
  path: string;
}

/** A file of a job, which the browser saves. A file that is missing or unreadable is reported on this page. */
export function FileLink({ jobId, path }: Props) {
  const { t } = useTranslation();
  const address = outputAddress(jobId, path);
  const download = useMutation({
    mutationFn: async () => {
      // The response that fails has the reason, which a download would not show.
      const response = await getRaw(address);
      await response.body?.cancel();
      const link = document.createElement("a");
      link.href = API + address;
      link.download = "";
      link.click();
    },
    onError: (error) => notifyProblem(t("Could not download {{path}}", { path }), error),
  });
  return (
    <Anchor
      href={API + address}
      download
      size="sm"
      className="mono"
      aria-label={t("Download {{path}}", { path })}
      aria-busy={download.isPending}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        if (!download.isPending) download.mutate();
      }}
    >
      <Text span inherit style={{ overflowWrap: "anywhere" }}>
        <bdi>{path}</bdi>
      </Text>
    </Anchor>
  );
}
