/** The terminal emulator and its connection to the shell. */
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { copyText } from "@/lib/clipboard";
import { type LinkState, TerminalLink } from "./terminal-link";
import { terminalTheme } from "./terminal-theme";

interface ScreenOptions {
  jobId: string;
  node: string | null;
  onState: (state: LinkState) => void;
  /** Called on Shift+Escape, which moves the focus out of the terminal. */
  onLeave: () => void;
}

export class Screen {
  private readonly terminal: Terminal;
  private readonly fit = new FitAddon();
  private readonly link: TerminalLink;
  private readonly watch: ResizeObserver;
  private frame = 0;

  constructor(element: HTMLElement, options: ScreenOptions) {
    const terminal = new Terminal({
      fontFamily: getComputedStyle(element).fontFamily,
      cursorBlink: !window.matchMedia("(prefers-reduced-motion: reduce)").matches,
      scrollback: 10_000,
      theme: terminalTheme(),
      // Keeps colours of programs readable in both colour schemes.
      minimumContrastRatio: 4.5,
    });
    this.terminal = terminal;
    terminal.loadAddon(this.fit);
    terminal.open(element);
    this.fit.fit();
    const link = new TerminalLink({
      jobId: options.jobId,
      node: options.node,
      size: { rows: terminal.rows, cols: terminal.cols },
      onOutput: (data, onWritten) => terminal.write(data, onWritten),
      onState: options.onState,
    });
    this.link = link;
    terminal.onData((text) => link.type(text));
    terminal.onBinary((text) => link.typeBinary(text));
    terminal.onResize(({ rows, cols }) => link.resize({ rows, cols }));
    terminal.attachCustomKeyEventHandler((event) => this.key(event, options.onLeave));
    this.watch = new ResizeObserver(() => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.fit.fit());
    });
    this.watch.observe(element);
    link.start();
    terminal.focus();
  }

  /** Applies the portal's current colours. */
  repaint(): void {
    this.terminal.options.theme = terminalTheme();
  }

  show(fontSize: number, screenReader: boolean): void {
    this.terminal.options.fontSize = fontSize;
    this.terminal.options.screenReaderMode = screenReader;
    this.fit.fit();
  }

  close(): void {
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
    this.link.close();
    this.terminal.dispose();
  }

  /** Whether the emulator handles a key. */
  private key(event: KeyboardEvent, leave: () => void): boolean {
    if (event.type !== "keydown" || !event.shiftKey) return true;
    if (event.key === "Escape") {
      leave();
      return false;
    }
    if (event.ctrlKey && event.code === "KeyC") {
      event.preventDefault();
      void copyText(this.terminal.getSelection());
      return false;
    }
    // The browser pastes.
    return !(event.ctrlKey && event.code === "KeyV");
  }
}
