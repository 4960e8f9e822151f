import { Button, Menu, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronDown, PenLine, RotateCcw } from "lucide-react";
import { useRef } from "react";
import { useTranslation } from "react-i18next";
import { launch } from "@/api/actions";
import { lastLaunchQuery, useRememberLaunch } from "@/api/preferences";
import { keys, templatesQuery } from "@/api/queries";
import type { JobFile } from "@/api/types";
import { notifyDone, notifyProblem } from "@/components/notify";
import { Refusal } from "@/components/Refusal";
import { TemplateIcon } from "@/components/TemplateIcon";
import { useRefusal } from "@/hooks/use-refusal";
import { uuid } from "@/lib/id";
import { describeFile } from "./describe-file";
import classes from "./StartAgain.module.css";

const MOST_SHOWN = 5;

/** Launches the last job file again; renders nothing before the first launch. */
export function StartAgain() {
  const { t } = useTranslation();
  const { data } = useQuery(lastLaunchQuery);
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const cache = useQueryClient();
  const navigate = useNavigate();
  const remember = useRememberLaunch();
  // One idempotency key per click: a retry after a lost response creates no second job.
  const key = useRef(uuid());
  const start = useMutation({
    mutationFn: ({ file }: { title: string; file: JobFile }) => launch(file, key.current),
    onSuccess: (job, { title, file }) => {
      key.current = uuid();
      for (const queryKey of [keys.sessions, keys.recent, keys.lists]) void cache.invalidateQueries({ queryKey });
      remember(title, file);
      notifyDone(t("{{name}} submitted.", { name: job.name }));
      if (job.type === "job") void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
    },
    onError: (error) => {
      key.current = uuid();
      notifyProblem(t("Launch failed"), error);
    },
  });
  const refusal = useRefusal();
  const [latest, ...earlier] = (data?.items.slice(0, MOST_SHOWN) ?? []) as { title: string; file: JobFile }[];
  if (latest === undefined) return null;
  const template = templates.find((entry) => entry.name === latest.file.template);
  const title = latest.title || (template?.title ?? t("Job"));
  return (
    <section className={`card ${classes.again ?? ""}`} aria-label={t("Start again")} data-testid="start-again">
      <TemplateIcon name={template?.icon} session={latest.file.type === "session"} />
      <span className={classes.words}>
        <Text span fw={650} className="truncate">
          {title}
        </Text>
        <Text span size="sm" c="dimmed" className="truncate">
          {describeFile(latest.file)}
        </Text>
      </span>
      <Refusal reason={refusal}>
        <Button.Group className={classes.buttons}>
          <Button leftSection={<RotateCcw size={16} />} loading={start.isPending} disabled={refusal !== null} onClick={() => start.mutate({ title, file: latest.file })} data-testid="start-again-go">
            {t("Start again")}
          </Button>
          <Menu position="bottom-end">
            <Menu.Target>
              <Button px={8} disabled={refusal !== null} aria-label={t("More recent launches")}>
                <ChevronDown size={16} />
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              {latest.file.template && (
                <Menu.Item leftSection={<PenLine size={15} />} onClick={() => void navigate({ to: "/", search: { launch: latest.file.template ?? "" } })}>
                  {t("Edit before launch")}
                </Menu.Item>
              )}
              {earlier.map((entry, index) => (
                <Menu.Item key={index} leftSection={<RotateCcw size={15} />} onClick={() => start.mutate(entry)}>
                  {entry.title} <Text span size="xs" c="dimmed">{describeFile(entry.file)}</Text>
                </Menu.Item>
              ))}
            </Menu.Dropdown>
          </Menu>
        </Button.Group>
      </Refusal>
    </section>
  );
}
