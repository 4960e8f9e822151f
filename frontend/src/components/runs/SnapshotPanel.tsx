import { Alert, Badge, Button, Collapse, Skeleton, Text, TextInput, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, ChevronRight, Info, Search } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Snapshot, snapshotQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { PageError } from "@/components/PageError";
import { Said } from "@/components/Said";
import { RelativeTime } from "@/components/Time";
import { formatBytes } from "@/lib/units";
import { Diff } from "./Diff";
import { FilesSection } from "./FilesSection";
import { ResultsSection } from "./ResultsSection";
import classes from "./SnapshotPanel.module.css";

/** What a job ran on, what it measured and what it wrote. */
export function SnapshotPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(snapshotQuery(job.id));
  if (query.isPending) return <Skeleton h={320} m={20} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => void query.refetch()} />;
  const snapshot = query.data;
  return (
    <div className={classes.panel} data-testid="snapshot">
      <ResultsSection job={job} />
      {snapshot.taken === null && (
        <Alert variant="light" color="gray" icon={<Info size={18} />}>
          {job.ended_at === null
            ? t("The commit and the packages appear here when the program has begun.")
            : t("Its agent has told nothing of the commit and the packages: the program never began, or the platform was not reached.")}
        </Alert>
      )}
      <Code snapshot={snapshot} />
      <Packages snapshot={snapshot} />
      <Place snapshot={snapshot} />
      {(snapshot.taken?.notes ?? []).map((note) => (
        <Text key={note} size="sm" c="dimmed">
          <Said>{note}</Said>
        </Text>
      ))}
      <FilesSection job={job} />
    </div>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={classes.section} aria-label={title}>
      <Title order={2} size="h6">
        {title}
      </Title>
      {children}
    </section>
  );
}

function Code({ snapshot }: { snapshot: Snapshot }) {
  const { t } = useTranslation();
  const [open, { toggle }] = useDisclosure(false);
  const { taken } = snapshot;
  if (taken === null) return null;
  const { git } = taken;
  return (
    <Section title={t("Code")}>
      <dl className={classes.facts}>
        <DetailRow name={t("Folder")}>
          <Identifier value={taken.workdir} what={t("the folder")} />
        </DetailRow>
        {git === null ? (
          <DetailRow name={t("Commit")}>
            <Text span size="sm" c="dimmed">
              {t("The folder is in no git repository.")}
            </Text>
          </DetailRow>
        ) : (
          <>
            <DetailRow name={t("Commit")}>
              {git.commit === null ? (
                t("None yet")
              ) : (
                <Identifier value={git.commit} short={git.commit.slice(0, 12)} what={t("the commit")} />
              )}
              {git.branch !== null && <Badge variant="light" color="gray" tt="none">{git.branch}</Badge>}
            </DetailRow>
            {git.remote !== null && (
              <DetailRow name={t("Remote")}>
                <Identifier value={git.remote} what={t("the remote's address")} />
              </DetailRow>
            )}
            <DetailRow name={t("Changes")}>
              {git.dirty ? (
                <>
                  {t("Not committed: a diff of {{size}}", { size: formatBytes(git.diff_bytes) })}
                  {git.diff_cut && ` · ${t("only its beginning is kept")}`}
                </>
              ) : (
                t("None: the commit is all of it")
              )}
            </DetailRow>
            {git.untracked.length > 0 && (
              <DetailRow name={t("Untracked")}>
                {git.untracked.slice(0, 12).map((name) => (
                  <span key={name} className="mono" style={{ fontSize: 12.5 }}>
                    {name}
                  </span>
                ))}
                {git.untracked.length > 12 && t("and {{count}} more", { count: git.untracked.length - 12 })}
              </DetailRow>
            )}
          </>
        )}
      </dl>
      {git !== null && git.diff !== "" && (
        <>
          <div className={classes.tools}>
            <Button variant="default" size="xs" leftSection={open ? <ChevronDown size={15} /> : <ChevronRight size={15} />} onClick={toggle} aria-expanded={open} data-testid="snapshot-diff">
              {open ? t("Hide the diff") : t("Show the diff")}
            </Button>
            <CopyButton what={t("the diff")} text={git.diff}>
              {t("Copy for git apply")}
            </CopyButton>
          </div>
          <Collapse expanded={open}>{open && <Diff text={git.diff} label={t("Changes that were not committed")} />}</Collapse>
        </>
      )}
    </Section>
  );
}

function Packages({ snapshot }: { snapshot: Snapshot }) {
  const { t } = useTranslation();
  const [open, { toggle }] = useDisclosure(false);
  const [wanted, setWanted] = useState("");
  const environment = snapshot.taken?.environment ?? null;
  const names = useMemo(() => Object.entries(environment?.packages ?? {}).sort(([a], [b]) => a.localeCompare(b)), [environment]);
  const shown = names.filter(([name]) => name.includes(wanted.trim().toLowerCase()));
  const inImage = snapshot.image !== "bare";
  if (environment === null && !inImage && snapshot.modules.length === 0) return null;
  return (
    <Section title={t("Software")}>
      <dl className={classes.facts}>
        {inImage && (
          <DetailRow name={t("Image")}>
            {snapshot.image}
            {snapshot.image_digest !== null && <Identifier value={snapshot.image_digest} short={snapshot.image_digest.slice(0, 19)} what={t("the digest")} />}
          </DetailRow>
        )}
        {snapshot.modules.length > 0 && <DetailRow name={t("Modules")}>{snapshot.modules.join(" ")}</DetailRow>}
        {environment?.path && (
          <DetailRow name={t("Environment")}>
            <Identifier value={environment.path} what={t("the path")} />
          </DetailRow>
        )}
        {environment?.python && <DetailRow name="Python">{environment.python}</DetailRow>}
        {names.length > 0 && (
          <DetailRow name={t("Packages")}>
            {t("{{count}} packages", { count: names.length })}
            {environment?.cut === true && ` · ${t("there are more")}`}
          </DetailRow>
        )}
      </dl>
      {names.length > 0 && (
        <>
          <div className={classes.tools}>
            <Button variant="default" size="xs" leftSection={open ? <ChevronDown size={15} /> : <ChevronRight size={15} />} onClick={toggle} aria-expanded={open} data-testid="snapshot-packages">
              {open ? t("Hide the packages") : t("Show the packages")}
            </Button>
            <CopyButton what={t("the packages")} text={() => names.map(([name, version]) => `${name}==${version}`).join("\n")}>
              {t("Copy as requirements.txt")}
            </CopyButton>
            {open && (
              <TextInput size="xs" aria-label={t("Find a package")} placeholder={t("Find a package")} leftSection={<Search size={14} />} value={wanted} onChange={(event) => setWanted(event.currentTarget.value)} />
            )}
          </div>
          <Collapse expanded={open}>
            {open && (
              // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
              <ul className={classes.packages} tabIndex={0} aria-label={t("Packages")}>
                {shown.map(([name, version]) => (
                  <li key={name}>
                    {name} <Text span size="xs" c="dimmed">{version}</Text>
                  </li>
                ))}
                {shown.length === 0 && <li>{t("None is called like that.")}</li>}
              </ul>
            )}
          </Collapse>
        </>
      )}
    </Section>
  );
}

function Place({ snapshot }: { snapshot: Snapshot }) {
  const { t } = useTranslation();
  const host = snapshot.taken?.host ?? null;
  if (host === null && snapshot.datasets.length === 0) return null;
  return (
    <Section title={t("Data and node")}>
      <dl className={classes.facts}>
        {snapshot.datasets.length > 0 && (
          <DetailRow name={t("Datasets")}>{snapshot.datasets.map((each) => `${each.name}:${each.version}`).join(", ")}</DetailRow>
        )}
        {host !== null && (
          <>
            <DetailRow name={t("Node")}>{host.node}</DetailRow>
            {host.system !== null && <DetailRow name={t("System")}>{[host.system, host.kernel].filter(Boolean).join(" · ")}</DetailRow>}
            {host.cpu !== null && <DetailRow name={t("Processor")}>{host.cpu}</DetailRow>}
            {host.gpu_driver !== null && <DetailRow name={t("GPU driver")}>{host.gpu_driver}</DetailRow>}
          </>
        )}
        {snapshot.taken !== null && (
          <DetailRow name={t("Taken")}>
            <RelativeTime at={snapshot.taken.taken_at} />
          </DetailRow>
        )}
      </dl>
    </Section>
  );
}
