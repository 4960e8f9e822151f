import { ActionIcon, Anchor, Button, Menu, Title, Tooltip } from "@mantine/core";
import { useDocumentTitle, useLocalStorage } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { AArrowDown, AArrowUp, ArrowLeft, Ear, Hourglass, RotateCw, SlidersHorizontal, SquareTerminal } from "lucide-react";
import { lazy, Suspense, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { jobQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { QueuePosition } from "@/components/QueuePosition";
import { StateBadge } from "@/components/StateBadge";
import { nameOfJob } from "@/lib/describe";
import { NodeSelect } from "./NodeSelect";
import { SshHelp } from "./SshHelp";
import type { LinkState } from "./terminal-link";
import classes from "./Terminal.module.css";

const TerminalScreen = lazy(() =>
  import("./TerminalScreen").then((module) => ({ default: module.TerminalScreen })),
);

const FONT = { smallest: 10, default: 14, largest: 26 };

export function TerminalPage() {
  const { t } = useTranslation();
  const { jobId } = useParams({ from: "/shell/jobs/$jobId/terminal" });
  const query = useQuery(jobQuery(jobId));
  useDocumentTitle(`${t("Terminal")} · ${query.data?.name ?? ""} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  return <LoadedTerminal key={jobId} job={query.data} />;
}

function LoadedTerminal({ job }: { job: Job }) {
  const { t } = useTranslation();
  const { node } = useSearch({ from: "/shell/jobs/$jobId/terminal" });
  const navigate = useNavigate({ from: "/jobs/$jobId/terminal" });
  const [storedSize, setStoredSize] = useLocalStorage({ key: "aitne.terminal.font", defaultValue: FONT.default, getInitialValueInEffect: false });
  const [screenReader, setScreenReader] = useLocalStorage({ key: "aitne.terminal.reader", defaultValue: false, getInitialValueInEffect: false });
  const [shell, setShell] = useState(0);
  const [link, setLink] = useState<LinkState | null>(null);
  const backLink = useRef<HTMLAnchorElement>(null);
  const fontSize = Math.min(FONT.largest, Math.max(FONT.smallest, storedSize));
  const canAttach = job.actions.includes("attach");
  const selectedNode = node !== undefined && job.nodes.includes(node) ? node : null;
  // The output of an ended shell stays visible, even after the job has ended.
  const visible = canAttach || link !== null;
  const restart = () => {
    setLink(null);
    setShell(shell + 1);
  };
  return (
    <div className={classes.page}>
      <div className={classes.head}>
        <div className={classes.name}>
          <Anchor component={Link} to={`/jobs/${job.id}`} c="dimmed" ref={backLink} aria-label={t("Back to job")}>
            <ArrowLeft size={18} style={{ verticalAlign: "-3px" }} aria-hidden />
          </Anchor>
          <Title order={1} size="h4" className="truncate">
            {nameOfJob(job)}
          </Title>
          <StateBadge job={job} />
        </div>
        <div className={classes.tools}>
          <NodeSelect
            job={job}
            node={selectedNode}
            onChange={(next) => {
              setLink(null);
              void navigate({ to: "/jobs/$jobId/terminal", params: { jobId: next.job }, search: { node: next.node }, replace: true });
            }}
          />
          <SshHelp job={job} />
          <Menu>
            <Menu.Target>
              <Tooltip label={t("View")}>
                <ActionIcon variant="default" size={30} aria-label={t("View")}>
                  <SlidersHorizontal size={15} />
                </ActionIcon>
              </Tooltip>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item
                closeMenuOnClick={false}
                leftSection={<AArrowUp size={15} />}
                disabled={fontSize >= FONT.largest}
                onClick={() => setStoredSize(fontSize + 1)}
              >
                {t("Larger text")}
              </Menu.Item>
              <Menu.Item
                closeMenuOnClick={false}
                leftSection={<AArrowDown size={15} />}
                disabled={fontSize <= FONT.smallest}
                onClick={() => setStoredSize(fontSize - 1)}
              >
                {t("Smaller text")}
              </Menu.Item>
              <Menu.Divider />
              <Menu.Item leftSection={<Ear size={15} />} onClick={() => setScreenReader(!screenReader)}>
                {screenReader ? t("Disable screen reader output") : t("Enable screen reader output")}
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </div>
      </div>
      <section className={`card ${classes.frame ?? ""}`} aria-label={t("Terminal")}>
        {!visible ? (
          <Waiting job={job} />
        ) : link?.status === "refused" ? (
          <div className={classes.waiting}>
            <PageError error={link.problem ?? new Error(link.reason ?? "")} onRetry={restart} />
          </div>
        ) : (
          <>
            <Suspense fallback={<div className={classes.screen} />}>
              <TerminalScreen
                key={`${shell}-${selectedNode ?? ""}`}
                jobId={job.id}
                node={selectedNode}
                fontSize={fontSize}
                screenReader={screenReader}
                onState={setLink}
                onLeave={() => backLink.current?.focus()}
              />
            </Suspense>
            <StatusBar link={link} canAttach={canAttach} onRestart={restart} />
          </>
        )}
      </section>
    </div>
  );
}

/** Connection status below the terminal, with a constant height. */
function StatusBar({ link, canAttach, onRestart }: { link: LinkState | null; canAttach: boolean; onRestart: () => void }) {
  const { t } = useTranslation();
  const statusText = () => {
    switch (link?.status) {
      case "open":
        if (link.where === "container") return t("In the job's container on {{node}}", { node: link.node });
        return link.where === "beside"
          ? t("On {{node}}, outside the job's container (not accessible)", { node: link.node })
          : t("On {{node}}", { node: link.node });
      case "broken":
        return t("Connection lost. Reconnecting to the same shell…");
      case "ended":
        if (link.reason !== null) return link.reason;
        return link.code === null
          ? t("The shell has ended.")
          : t("The shell has ended with exit code {{code}}.", { code: link.code });
      default:
        return t("Starting a shell in the job…");
    }
  };
  return (
    <div className={classes.bar}>
      <span className={classes.status} role="status" data-testid="terminal-status">
        {statusText()}
      </span>
      {link?.status === "ended" && canAttach ? (
        <Button size="xs" variant="light" leftSection={<RotateCw size={14} />} onClick={onRestart}>
          {t("New shell")}
        </Button>
      ) : (
        <span className={classes.keys}>{t("Shift+Esc: leave terminal · Ctrl+Shift+C: copy")}</span>
      )}
    </div>
  );
}

function Waiting({ job }: { job: Job }) {
  const { t } = useTranslation();
  const live = !job.ended_at;
  const canAct = job.actions.length > 0;
  return (
    <div className={classes.waiting}>
      {live && canAct ? (
        <EmptyState icon={Hourglass} title={t("Waiting for the job to start")}>
          {t("Keep this page open. The terminal opens when the job starts.")}
          <QueuePosition job={job} mt="sm" />
        </EmptyState>
      ) : live ? (
        <EmptyState icon={SquareTerminal} title={t("Only the owner can open a terminal")}>
          {t("A terminal runs under the Unix account of the job's owner.")}
        </EmptyState>
      ) : (
        <EmptyState
          icon={SquareTerminal}
          title={t("The job has ended")}
          action={
            <Button component={Link} to={`/jobs/${job.id}`} variant="light" size="sm" mt="xs">
              {t("Open job")}
            </Button>
          }
        >
          {t("Terminals are available in running jobs only. The log contains the output of this job.")}
        </EmptyState>
      )}
    </div>
  );
}
