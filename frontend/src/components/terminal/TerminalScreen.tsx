import "@xterm/xterm/css/xterm.css";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import type { LinkState } from "@/lib/terminal-link";
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

/** The terminal itself. Another `key` is another shell. */
export function TerminalScreen({ jobId, node, fontSize, screenReader, onState, onLeave }: Props) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme("light");
  const host = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const leave = useRef(onLeave);
  const tell = useRef(onState);
  useEffect(() => {
    leave.current = onLeave;
    tell.current = onState;
  });

  useEffect(() => {
    if (host.current === null) return undefined;
    const made = new Screen(host.current, {
      jobId,
      node,
      onState: (state) => tell.current(state),
      onLeave: () => leave.current(),
    });
    screen.current = made;
    return () => {
      screen.current = null;
      made.close();
    };
  }, [jobId, node]);

  useEffect(() => screen.current?.show(fontSize, screenReader), [fontSize, screenReader, jobId, node]);
  useEffect(() => screen.current?.repaint(), [scheme, jobId, node]);

  return <div ref={host} className={classes.screen} role="group" aria-label={t("Terminal")} data-testid="terminal" />;
}
