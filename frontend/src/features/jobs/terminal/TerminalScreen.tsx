import "@xterm/xterm/css/xterm.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import type { LinkState } from "./terminal-link";
import { Screen } from "./screen";
import classes from "./Terminal.module.css";

interface Props {
  jobId: string;
  node: string | null;
  fontSize: number;
  screenReader: boolean;
  onState: (state: LinkState) => void;
  onLeave: () => void;
}

/** The terminal. A new `key` opens a new shell. */
export function TerminalScreen({ jobId, node, fontSize, screenReader, onState, onLeave }: Props) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme("light");
  const host = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const leave = useRef(onLeave);
  const report = useRef(onState);
  useEffect(() => {
    leave.current = onLeave;
    report.current = onState;
  });

  useEffect(() => {
    if (host.current === null) return undefined;
    const created = new Screen(host.current, {
      jobId,
      node,
      onState: (state) => report.current(state),
      onLeave: () => leave.current(),
    });
    screen.current = created;
    return () => {
      screen.current = null;
      created.close();
    };
  }, [jobId, node]);

  useEffect(() => screen.current?.show(fontSize, screenReader), [fontSize, screenReader, jobId, node]);
  useEffect(() => screen.current?.repaint(), [scheme, jobId, node]);

  return <div ref={host} className={classes.screen} role="group" aria-label={t("Terminal")} data-testid="terminal" />;
}
