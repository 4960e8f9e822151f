import { Alert, Badge, Button, Collapse, Text, TextInput, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { ChevronDown, ChevronRight, Info, Search } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { type Snapshot, snapshotQuery } from "@/api/runs";
import type { Job } from "@/api/types";
import { CopyButton } from "@/components/CopyButton";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { NodeLinks } from "@/components/NodeLinks";
import { PageError } from "@/components/PageError";
import { ServerText } from "@/components/ServerText";
import { TabSkeleton } from "@/components/TabSkeleton";
import { RelativeTime } from "@/components/Time";
import { formatBytes } from "@/lib/units";
import { Diff } from "./Diff";
import { FilesSection } from "./FilesSection";
import classes from "./SnapshotPanel.module.css";

/** Code, software and node of a run, and its output files. */
export function SnapshotPanel({ job }: { job: Job }) {
  const { t } = useTranslation();
  const query = useQuery(snapshotQuery(job.id));
  if (query.isPending) return <TabSkeleton h={320} />;
  if (query.data === undefined) return <PageError compact error={query.error} onRetry={() => query.refetch()} />;
  const snapshot = query.data;
  return (
    <div className={classes.panel} data-testid="snapshot">
      {snapshot.taken === null && (
        <Alert variant="light" color="gray" icon={<Info size={18} />}>
          {job.ended_at === null
            ? t("Commit and packages appear here after the program has started.")
            : t("No commit or package data: the program did not start, or the platform was not reachable.")}
        </Alert>
      )}
      <Code snapshot={snapshot} hasTree={job.tree !== null} />
      <Packages snapshot={snapshot} />
      <DataAndNode snapshot={snapshot} />
      {(snapshot.taken?.notes ?? []).map((note) => (
        <Text key={note} size="sm" c="dimmed">
          <ServerText>{note}</ServerText>
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

/** The code in the folder of the job; the commit of an uploaded tree, which is not a repository, is among the details. */
function Code({ snapshot, hasTree }: { snapshot: Snapshot; hasTree: boolean }) {
  const { t } = useTranslation();
  const [open, { toggle }] = useDisclosure(false);
  const { taken } = snapshot;
  if (taken === null) return null;
  const { git } = taken;
  return (
    <Section title={t("Code")}>
      <dl className={classes.facts}>
        <DetailRow name={t("Folder")}>
          <Identifier value={taken.workdir} what={t("folder")} />
        </DetailRow>
        {git === null ? (
          !hasTree && (
            <DetailRow name={t("Commit")}>
              <Text span size="sm" c="dimmed">
                {t("Not in a Git repository")}
              </Text>
            </DetailRow>
          )
        ) : (
          <>
            <DetailRow name={t("Commit")}>
              {git.commit === null ? (
                t("No commits yet")
              ) : (
                <Identifier value={git.commit} short={git.commit.slice(0, 12)} what={t("commit")} />
              )}
              {git.branch !== null && <Badge variant="light" color="gray" tt="none">{git.branch}</Badge>}
            </DetailRow>
            {git.remote !== null && (
              <DetailRow name={t("Remote")}>
                <Identifier value={git.remote} what={t("remote URL")} />
              </DetailRow>
            )}
            <DetailRow name={t("Changes")}>
              {git.dirty ? (
                <>
                  {t("Uncommitted changes (diff: {{size}})", { size: formatBytes(git.diff_bytes) })}
                  {git.diff_cut && ` · ${t("truncated")}`}
                </>
              ) : (
                t("Working tree clean")
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
              {open ? t("Hide diff") : t("Show diff")}
            </Button>
            <CopyButton what={t("diff")} text={git.diff}>
              {t("Copy for git apply")}
            </CopyButton>
          </div>
          <Collapse expanded={open}>{open && <Diff text={git.diff} label={t("Uncommitted changes")} />}</Collapse>
        </>
      )}
    </Section>
  );
}

function Packages({ snapshot }: { snapshot: Snapshot }) {
  const { t } = useTranslation();
  const [open, { toggle }] = useDisclosure(false);
  const [search, setSearch] = useState("");
  const environment = snapshot.taken?.environment ?? null;
  const names = useMemo(() => Object.entries(environment?.packages ?? {}).sort(([a], [b]) => a.localeCompare(b)), [environment]);
  const matches = names.filter(([name]) => name.includes(search.trim().toLowerCase()));
  const inImage = snapshot.image !== "bare";
  if (environment === null && !inImage && snapshot.modules.length === 0) return null;
  return (
    <Section title={t("Software")}>
      <dl className={classes.facts}>
        {inImage && (
          <DetailRow name={t("Image")}>
            {snapshot.image}
            {snapshot.image_digest !== null && <Identifier value={snapshot.image_digest} short={snapshot.image_digest.slice(0, 19)} what={t("digest")} />}
          </DetailRow>
        )}
        {snapshot.modules.length > 0 && <DetailRow name={t("Modules")}>{snapshot.modules.join(" ")}</DetailRow>}
        {environment?.path && (
          <DetailRow name={t("Environment")}>
            <Identifier value={environment.path} what={t("path")} />
          </DetailRow>
        )}
        {environment?.python && <DetailRow name="Python">{environment.python}</DetailRow>}
        {names.length > 0 && (
          <DetailRow name={t("Packages")}>
            {t("{{count}} packages", { count: names.length })}
            {environment?.cut === true && ` · ${t("truncated")}`}
          </DetailRow>
        )}
      </dl>
      {names.length > 0 && (
        <>
          <div className={classes.tools}>
            <Button variant="default" size="xs" leftSection={open ? <ChevronDown size={15} /> : <ChevronRight size={15} />} onClick={toggle} aria-expanded={open} data-testid="snapshot-packages">
              {open ? t("Hide packages") : t("Show packages")}
            </Button>
            <CopyButton what={t("packages")} text={() => names.map(([name, version]) => `${name}==${version}`).join("\n")}>
              {t("Copy as requirements.txt")}
            </CopyButton>
            {open && (
              <TextInput size="xs" aria-label={t("Search packages")} placeholder={t("Search packages")} leftSection={<Search size={14} />} value={search} onChange={(event) => setSearch(event.currentTarget.value)} />
            )}
          </div>
          <Collapse expanded={open}>
            {open && (
              // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
              <ul className={classes.packages} tabIndex={0} aria-label={t("Packages")}>
                {matches.map(([name, version]) => (
                  <li key={name}>
                    {name} <Text span size="xs" c="dimmed">{version}</Text>
                  </li>
                ))}
                {matches.length === 0 && <li>{t("No matching packages.")}</li>}
              </ul>
            )}
          </Collapse>
        </>
      )}
    </Section>
  );
}

function DataAndNode({ snapshot }: { snapshot: Snapshot }) {
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
            <DetailRow name={t("Node")}><NodeLinks nodes={[host.node]} /></DetailRow>
            {host.system !== null && <DetailRow name={t("System")}>{[host.system, host.kernel].filter(Boolean).join(" · ")}</DetailRow>}
            {host.cpu !== null && <DetailRow name={t("Processor")}>{host.cpu}</DetailRow>}
            {host.gpu_driver !== null && <DetailRow name={t("GPU driver")}>{host.gpu_driver}</DetailRow>}
          </>
        )}
        {snapshot.taken !== null && (
          <DetailRow name={t("Captured")}>
            <RelativeTime at={snapshot.taken.taken_at} />
          </DetailRow>
        )}
      </dl>
    </Section>
  );
}
