/** The terminal's colours, from the portal's CSS variables of the current colour scheme. */
import type { ITheme } from "@xterm/xterm";

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

export function terminalTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  const theme: ITheme = {
    background: of("--log"),
    foreground: of("--mantine-color-text"),
    cursor: of("--active"),
    cursorAccent: of("--log"),
    selectionBackground: of("--active-soft"),
  };
  for (const name of NAMES) {
    const color = of(`--ansi-${name}`);
    theme[name] = color;
    theme[`bright${name[0]?.toUpperCase() ?? ""}${name.slice(1)}` as "brightRed"] = color;
  }
  return theme;
}
