import { Alert, Button, FileButton, Group, List, Menu, SegmentedControl, Skeleton, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronDown, CircleAlert, Download, FileUp, FileWarning, LayoutTemplate, Rocket, Trash2 } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { importScript } from "@/api/actions";
import { useRememberLaunch } from "@/api/preferences";
import { messageOf } from "@/api/problem";
import { jobFileQuery, keys, meQuery, templatesQuery } from "@/api/queries";
import type { ImportNote } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { CopyButton } from "@/components/CopyButton";
import { notifyProblem } from "@/components/notify";
import { PageTitle } from "@/components/PageTitle";
import { Refusal } from "@/components/Refusal";
import { PlanView } from "@/components/PlanView";
import { ServerText } from "@/components/ServerText";
import { useRefusal } from "@/hooks/use-refusal";
import { ComposeForm } from "./ComposeForm";
import { isBatchScript, setField } from "./job-yaml";
import { saveText } from "./save-text";
import { useCompose } from "./use-compose";
import classes from "./Compose.module.css";

const YamlEditor = lazy(() => import("./YamlEditor"));

/** Maximum size of an opened file. */
const MAX_BYTES = 256 << 10;

const EXAMPLE = `name: my-training
commands:
  - python train.py --epochs 10
resources:
  cpu: 4
  memory: 16G
  gpu: 1
max_duration: 4h
`;

export function ComposePage() {
  const { t } = useTranslation();
  const { from, template } = useSearch({ from: "/shell/compose" });
  const navigate = useNavigate();
  const cache = useQueryClient();
  const { data: me } = useSuspenseQuery(meQuery);
  const remember = useRememberLaunch();
  const refusal = useRefusal();
  const compose = useCompose(me.user.name, (job, file) => {
    cache.setQueryData(keys.job(job.id), job, { updatedAt: 0 });
    for (const queryKey of [keys.lists, keys.recent, keys.sessions]) void cache.invalidateQueries({ queryKey });
    remember(job.name, file);
    void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
  });
  const [notes, setNotes] = useState<ImportNote[]>([]);
  const [dragging, setDragging] = useState(false);
  const narrow = useMediaQuery("(max-width: 900px)", false, { getInitialValueInEffect: false });
  const [side, setSide] = useState<"form" | "yaml">("form");

  const load = (text: string, importNotes: ImportNote[] = []) => {
    compose.setText(text);
    setNotes(importNotes);
  };
  const initial = useInitialText(from, template, load);
  const script = useMutation({
    mutationFn: importScript,
    onSuccess: (answer) => load(answer.yaml, answer.notes),
    onError: (error) => notifyProblem(t("Could not import the script"), error),
  });
  const open = async (file: File | null | undefined) => {
    if (!file) return;
    if (file.size > MAX_BYTES) notifyProblem(t("Could not open the file"), new Error(t("The file is larger than the maximum size of a job file.")));
    else loadOrImport(await file.text());
  };
  const loadOrImport = (text: string) => {
    if (isBatchScript(text)) script.mutate(text);
    else load(text);
  };
  /** Converts a pasted batch script; the clipboard of Windows ends lines in its own way. */
  const importPasted = (text: string) => {
    if (!isBatchScript(text)) return false;
    script.mutate(text.replaceAll("\r\n", "\n"));
    return true;
  };
  const name = typeof compose.value.name === "string" ? compose.value.name : "job";
  const submit = () => {
    if (compose.file !== null && !compose.start.isPending) compose.start.mutate(compose.file);
  };

  const editor = (
    <div className={classes.editor}>
      <Suspense fallback={<Skeleton h="100%" />}>
        <YamlEditor label={t("Job file editor")} hint={t("Type or paste a job file, or drop a job file or sbatch script here.")} value={compose.text} onChange={compose.setText} onReplace={importPasted} problems={compose.problems} />
      </Suspense>
    </div>
  );
  return (
    <div
      role="presentation"
      className={dragging ? classes.dragging : undefined}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setDragging(true);
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setDragging(false);
        void open(event.dataTransfer.files[0]);
      }}
      onPasteCapture={(event) => {
        // While there is no job file, a batch script is imported wherever it is pasted.
        if (compose.text.trim() === "" && importPasted(event.clipboardData.getData("text/plain"))) event.preventDefault();
      }}
    >
      <PageTitle title={t("New job")}>
        <Group gap="xs">
          <FileButton onChange={(file) => void open(file)} accept=".yml,.yaml,.sbatch,.slurm,.sh,text/plain">
            {(props) => (
              <Button {...props} variant="default" size="sm" leftSection={<FileUp size={16} />} loading={script.isPending}>
                {t("Open file")}
              </Button>
            )}
          </FileButton>
          <StartFrom onChoose={load} />
        </Group>
      </PageTitle>
      {initial.error !== null && (
        <Alert color="red" icon={<CircleAlert size={18} />} mb="md" role="alert">
          {t("Could not load the job: {{error}}", { error: messageOf(initial.error) })}
        </Alert>
      )}
      {notes.length > 0 && <Notes notes={notes} onClose={() => setNotes([])} />}
      {narrow && (
        <SegmentedControl
          fullWidth
          mb="sm"
          data={[
            { value: "form", label: t("Form") },
            { value: "yaml", label: t("Job file") },
          ]}
          value={side}
          onChange={(next) => setSide(next === "yaml" ? "yaml" : "form")}
        />
      )}
      <div className={classes.columns}>
        {(!narrow || side === "form") && (
          // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- while the fields are disabled, the keyboard scrolls the area itself
          <section className={`card ${classes.pane ?? ""}`} tabIndex={compose.broken ? 0 : undefined} aria-label={t("Form")} data-broken={compose.broken}>
            {compose.broken && !isBatchScript(compose.text) && (
              <Alert color="orange" icon={<FileWarning size={18} />} m="md" mb={0} className={classes.alert}>
                {t("The job file has a syntax error. The form shows the last valid version.")}
              </Alert>
            )}
            {compose.broken && isBatchScript(compose.text) && (
              <Alert color="orange" icon={<FileWarning size={18} />} m="md" mb={0} className={classes.alert} title={t("This is a batch script.")}>
                <Button size="compact-sm" loading={script.isPending} onClick={() => importPasted(compose.text)} data-testid="compose-convert">
                  {t("Convert to a job file")}
                </Button>
              </Alert>
            )}
            <fieldset disabled={compose.broken} className={classes.bare}>
              <ComposeForm
                value={compose.value}
                projects={me.projects}
                errors={compose.errors}
                onSet={(path, value) => compose.setText(setField(compose.text, path, value))}
              />
            </fieldset>
          </section>
        )}
        {(!narrow || side === "yaml") && (
          <section className={`card ${classes.pane ?? ""}`} aria-label={t("Job file")}>
            <div className={classes.tools}>
              <Text size="sm" fw={600}>
                {t("Job file")}
              </Text>
              <span className={classes.tool}>
                <CopyButton what={t("the job file")} text={() => compose.text} />
                <Button
                  size="compact-sm"
                  variant="subtle"
                  leftSection={<Download size={14} />}
                  disabled={compose.text === ""}
                  onClick={() => saveText(compose.text, `${fileName(name)}.aitne.yml`, "application/yaml")}
                  data-testid="compose-download"
                >
                  {t("Download job file")}
                </Button>
                <Button size="compact-sm" variant="subtle" color="gray" leftSection={<Trash2 size={14} />} disabled={compose.text === ""} onClick={() => load("")}>
                  {t("Clear")}
                </Button>
              </span>
            </div>
            {editor}
          </section>
        )}
      </div>
      <div className={classes.foot}>
        {compose.other !== null && (
          <Alert color="red" icon={<CircleAlert size={18} />} mb="sm" role="alert" title={t("Not launched")}>
            <CodeText>{messageOf(compose.other)}</CodeText>
          </Alert>
        )}
        <div className={classes.footRow}>
          <div className={classes.plan}>
            {compose.problems.length > 0 && !isBatchScript(compose.text) && (
              <List size="sm" c="var(--bad)" spacing={2} data-testid="compose-problems">
                {compose.problems.map((problem) => (
                  <List.Item key={`${problem.line}:${problem.message}`}>
                    <CodeText>{t("Line {{line}}: {{message}}", { line: problem.line, message: problem.message })}</CodeText>
                  </List.Item>
                ))}
              </List>
            )}
            {compose.problems.length === 0 && (
              <PlanView
                plan={compose.file === null ? undefined : compose.plan.data}
                error={compose.file === null ? null : compose.plan.error}
                hint={compose.file === null ? t("Enter a command to see the estimated start.") : null}
                fresh={compose.fresh}
              />
            )}
          </div>
          <Refusal reason={refusal}>
            <Button
              size="md"
              leftSection={<Rocket size={17} />}
              loading={compose.start.isPending}
              disabled={refusal !== null || compose.file === null || (compose.fresh && (compose.problems.length > 0 || compose.plan.data?.fits === false))}
              onClick={submit}
              data-testid="compose-submit"
            >
              {t("Launch")}
            </Button>
          </Refusal>
        </div>
      </div>
    </div>
  );
}

/** Loads the job or template of the URL once and removes it from the URL, so that navigating back changes nothing. */
function useInitialText(from: string | undefined, template: string | undefined, load: (text: string) => void) {
  const navigate = useNavigate();
  const job = useQuery({ ...jobFileQuery(from ?? ""), enabled: from !== undefined });
  const templates = useQuery({ ...templatesQuery, enabled: template !== undefined }).data;
  const loadedKey = useRef("");
  const matchingTemplate = template === undefined ? undefined : templates?.items.find((each) => each.name === template);
  const text = from !== undefined ? job.data?.yaml : matchingTemplate && jobFileOf(matchingTemplate);
  useEffect(() => {
    const key = `${from ?? ""} ${template ?? ""}`;
    if (text === undefined || loadedKey.current === key) return;
    loadedKey.current = key;
    load(text);
    void navigate({ to: "/compose", search: {}, replace: true });
  });
  return { error: from === undefined ? null : job.error };
}

function jobFileOf(template: { name: string; type: string; title: string }): string {
  let text = template.type === "session" ? "type: session\n" : "";
  for (const [field, value] of [["name", template.title], ["template", template.name]] as const) text = setField(text, [field], value);
  return text;
}

function StartFrom({ onChoose }: { onChoose: (text: string) => void }) {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery).data?.items ?? [];
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" size="sm" leftSection={<LayoutTemplate size={16} />} rightSection={<ChevronDown size={13} />}>
          {t("Start from")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onChoose(EXAMPLE)}>{t("Example")}</Menu.Item>
        {templates.length > 0 && <Menu.Divider />}
        {templates.map((template) => (
          <Menu.Item key={template.name} onClick={() => onChoose(jobFileOf(template))}>
            {template.title}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Notes({ notes, onClose }: { notes: readonly ImportNote[]; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Alert
      color="orange"
      icon={<FileWarning size={18} />}
      mb="md"
      withCloseButton
      closeButtonLabel={t("Close")}
      onClose={onClose}
      title={t("{{count}} script options need review", { count: notes.length })}
      data-testid="compose-notes"
    >
      <List size="sm" spacing={4}>
        {notes.map((note) => (
          <List.Item key={`${note.line}:${note.option}`}>
            {t("Line {{line}}:", { line: note.line })} <code>{note.option}</code> <ServerText>{note.message}</ServerText>
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

function fileName(name: string): string {
  return name.replace(/[^\w.-]+/g, "_").slice(0, 60) || "job";
}

