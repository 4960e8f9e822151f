import { ActionIcon, Anchor, Button, Menu, Select, Title, Tooltip } from "@mantine/core";
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
import { QueueLine } from "@/components/QueueLine";
import { StateBadge } from "@/components/StateBadge";
import { SshHelp } from "@/components/terminal/SshHelp";
import classes from "@/components/terminal/Terminal.module.css";
import type { LinkState } from "@/lib/terminal-link";

const TerminalScreen = lazy(() =>
  import("@/components/terminal/TerminalScreen").then((module) => ({ default: module.TerminalScreen })),
);

const FONT = { smallest: 10, usual: 14, largest: 26 };

export function TerminalPage() {
  const { t } = useTranslation();
  const { jobId } = useParams({ from: "/shell/jobs/$jobId/terminal" });
  const query = useQuery(jobQuery(jobId));
  useDocumentTitle(`${t("Terminal")} · ${query.data?.name ?? ""} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => void query.refetch()} />;
  return <LoadedTerminal key={jobId} job={query.data} />;
}

function LoadedTerminal({ job }: { job: Job }) {
  const { t } = useTranslation();
  const { node } = useSearch({ from: "/shell/jobs/$jobId/terminal" });
  const navigate = useNavigate({ from: "/jobs/$jobId/terminal" });
  const [stored, setStored] = useLocalStorage({ key: "aitne.terminal.font", defaultValue: FONT.usual, getInitialValueInEffect: false });
  const [screenReader, setScreenReader] = useLocalStorage({ key: "aitne.terminal.reader", defaultValue: false, getInitialValueInEffect: false });
  const [shell, setShell] = useState(0);
  const [link, setLink] = useState<LinkState | null>(null);
  const back = useRef<HTMLAnchorElement>(null);
  const fontSize = Math.min(FONT.largest, Math.max(FONT.smallest, stored));
  const can = job.actions.includes("attach");
  const chosen = node !== undefined && job.nodes.includes(node) ? node : null;
  // A shell that has ended still shows what it said, also when its job is over.
  const shown = can || link !== null;
  const again = () => {
    setLink(null);
    setShell(shell + 1);
  };
  return (
    <div className={classes.page}>
      <div className={classes.head}>
        <div className={classes.name}>
          <Anchor component={Link} to={`/jobs/${job.id}`} c="dimmed" ref={back} aria-label={t("Back to the job")}>
            <ArrowLeft size={18} style={{ verticalAlign: "-3px" }} aria-hidden />
          </Anchor>
          <Title order={1} size="h4" className="truncate">
            {job.name}
          </Title>
          <StateBadge job={job} />
        </div>
        <div className={classes.tools}>
          {job.nodes.length > 1 && (
            <Select
              aria-label={t("Node")}
              size="xs"
              w={150}
              data={job.nodes}
              value={chosen ?? job.nodes[0] ?? null}
              allowDeselect={false}
              onChange={(next) => {
                setLink(null);
                void navigate({ search: next === null ? {} : { node: next }, replace: true });
              }}
            />
          )}
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
                onClick={() => setStored(fontSize + 1)}
              >
                {t("Larger text")}
              </Menu.Item>
              <Menu.Item
                closeMenuOnClick={false}
                leftSection={<AArrowDown size={15} />}
                disabled={fontSize <= FONT.smallest}
                onClick={() => setStored(fontSize - 1)}
              >
                {t("Smaller text")}
              </Menu.Item>
              <Menu.Divider />
              <Menu.Item leftSection={<Ear size={15} />} onClick={() => setScreenReader(!screenReader)}>
                {screenReader ? t("Do not read the output out") : t("Let a screen reader read the output out")}
              </Menu.Item>
            </Menu.Dropdown>
          </Menu>
        </div>
      </div>
      <section className={`card ${classes.frame ?? ""}`} aria-label={t("Terminal")}>
        {!shown ? (
          <Waiting job={job} />
        ) : link?.status === "refused" ? (
          <div className={classes.waiting}>
            <PageError error={link.problem ?? new Error(link.reason ?? "")} onRetry={again} />
          </div>
        ) : (
          <>
            <Suspense fallback={<div className={classes.screen} />}>
              <TerminalScreen
                key={`${shell}-${chosen ?? ""}`}
                jobId={job.id}
                node={chosen}
                fontSize={fontSize}
                screenReader={screenReader}
                onState={setLink}
                onLeave={() => back.current?.focus()}
              />
            </Suspense>
            <Bar link={link} can={can} onAgain={again} />
          </>
        )}
      </section>
    </div>
  );
}

/** Below the terminal: how it stands with the connection. Its height never changes. */
function Bar({ link, can, onAgain }: { link: LinkState | null; can: boolean; onAgain: () => void }) {
  const { t } = useTranslation();
  const said = () => {
    switch (link?.status) {
      case "open":
        if (link.where === "container") return t("In the job's container on {{node}}", { node: link.node });
        return link.where === "beside"
          ? t("On {{node}}, beside the job's container: it cannot be entered", { node: link.node })
          : t("On {{node}}", { node: link.node });
      case "broken":
        return t("The connection broke. Coming back to the same shell…");
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
      <span className={classes.said} role="status" data-testid="terminal-status">
        {said()}
      </span>
      {link?.status === "ended" && can ? (
        <Button size="xs" variant="light" leftSection={<RotateCw size={14} />} onClick={onAgain}>
          {t("New shell")}
        </Button>
      ) : (
        <span className={classes.keys}>{t("Shift+Esc leaves the terminal · Ctrl+Shift+C copies")}</span>
      )}
    </div>
  );
}

function Waiting({ job }: { job: Job }) {
  const { t } = useTranslation();
  const live = !job.ended_at;
  const mine = job.actions.length > 0;
  return (
    <div className={classes.waiting}>
      {live && mine ? (
        <EmptyState icon={Hourglass} title={t("The terminal opens when the job runs")}>
          {t("Stay on this page: a shell starts by itself as soon as the job has its node.")}
          <QueueLine job={job} mt="sm" />
        </EmptyState>
      ) : live ? (
        <EmptyState icon={SquareTerminal} title={t("Only its owner can work in this job")}>
          {t("A terminal acts as the one whose job it is, so it is nobody else's.")}
        </EmptyState>
      ) : (
        <EmptyState
          icon={SquareTerminal}
          title={t("This job is over")}
          action={
            <Button component={Link} to={`/jobs/${job.id}`} variant="light" size="sm" mt="xs">
              {t("Open the job's page")}
            </Button>
          }
        >
          {t("A terminal works in a running job. What this one has written stands in its log.")}
        </EmptyState>
      )}
    </div>
  );
}
