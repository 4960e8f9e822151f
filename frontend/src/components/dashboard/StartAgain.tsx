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
import { TemplateIcon } from "@/components/TemplateIcon";
import { uuid } from "@/lib/id";
import { describeFile } from "@/lib/describe-file";
import classes from "./StartAgain.module.css";

/** What was launched last, as it was, by one press. Nothing before the first launch. */
export function StartAgain() {
  const { t } = useTranslation();
  const { data } = useQuery(lastLaunchQuery);
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const cache = useQueryClient();
  const navigate = useNavigate();
  const remember = useRememberLaunch();
  // One key for one press: a lost answer and another try make one job.
  const key = useRef(uuid());
  const start = useMutation({
    mutationFn: ({ file }: { title: string; file: JobFile }) => launch(file, key.current),
    onSuccess: (job, { title, file }) => {
      key.current = uuid();
      for (const queryKey of [keys.sessions, keys.recent, keys.lists]) void cache.invalidateQueries({ queryKey });
      remember(title, file);
      notifyDone(t("{{name}} is on its way.", { name: job.name }));
      if (job.type === "job") void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
    },
    onError: (error) => {
      key.current = uuid();
      notifyProblem(t("Not launched"), error);
    },
  });
  const [last, ...others] = (data?.items ?? []) as { title: string; file: JobFile }[];
  if (last === undefined) return null;
  const template = templates.find((each) => each.name === last.file.template);
  const title = last.title || (template?.title ?? t("Job"));
  return (
    <section className={`card ${classes.again ?? ""}`} aria-label={t("Start again")} data-testid="start-again">
      <TemplateIcon name={template?.icon} session={last.file.type === "session"} />
      <span className={classes.words}>
        <Text span fw={650} className="truncate">
          {title}
        </Text>
        <Text span size="sm" c="dimmed" className="truncate">
          {describeFile(last.file)}
        </Text>
      </span>
      <Button.Group className={classes.buttons}>
        <Button leftSection={<RotateCcw size={16} />} loading={start.isPending} onClick={() => start.mutate({ title, file: last.file })} data-testid="start-again-go">
          {t("Start again")}
        </Button>
        <Menu position="bottom-end">
          <Menu.Target>
            <Button px={8} aria-label={t("More to start again")}>
              <ChevronDown size={16} />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {last.file.template && (
              <Menu.Item leftSection={<PenLine size={15} />} onClick={() => void navigate({ to: "/", search: { launch: last.file.template ?? "" } })}>
                {t("Change it first")}
              </Menu.Item>
            )}
            {others.map((each, index) => (
              <Menu.Item key={index} leftSection={<RotateCcw size={15} />} onClick={() => start.mutate(each)}>
                {each.title} <Text span size="xs" c="dimmed">{describeFile(each.file)}</Text>
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      </Button.Group>
    </section>
  );
}
