/** The portal's theme: indigo as primary colour, teal for ready states, system fonts, rounded corners. */
import {
  Alert,
  type CSSVariablesResolver,
  createTheme,
  defaultVariantColorsResolver,
  type MantineColorsTuple,
  type VariantColorsResolver,
} from "@mantine/core";
import i18next from "i18next";

const indigo: MantineColorsTuple = [
  "#eff1fd", "#dde1f8", "#bac2ee", "#95a1e4", "#7584dc", "#6172d7", "#5264cf", "#4453b5", "#3a479d", "#2f3b86",
];
const moon: MantineColorsTuple = [
  "#e5f8f5", "#d3efea", "#a8dfd5", "#7acebf", "#53c0ad", "#3bb7a2", "#2aad97", "#0f7d6d", "#0b7566", "#006153",
];
// Blue-grey instead of Mantine's neutral grey; index 7 is the page, 6 a card.
const dark: MantineColorsTuple = [
  "#d6d9e6", "#b8bdcf", "#959cb3", "#666e87", "#3e455c", "#2f3549", "#1d2130", "#12151f", "#0d1018", "#080a10",
];
const gray: MantineColorsTuple = [
  "#f7f8fb", "#eff1f6", "#e5e8f0", "#d9dde8", "#c6ccda", "#a5adc0", "#7b849b", "#586178", "#3d4459", "#252a3a",
];

/** The portal's tone (see `cssVariables`) of each palette. */
const TONES: Partial<Record<string, string>> = { red: "bad", orange: "warn", moon: "good", indigo: "active", gray: "neutral" };

/** Soft variants use the tones, which have sufficient contrast in both schemes. */
const variants: VariantColorsResolver = (input) => {
  const tone = TONES[input.color ?? input.theme.primaryColor];
  if (tone === undefined) return defaultVariantColorsResolver(input);
  const color = `var(--${tone})`;
  const soft = `var(--${tone}-soft)`;
  const stronger = `color-mix(in srgb, ${soft}, ${color} 12%)`;
  switch (input.variant) {
    case "light":
      return { background: soft, hover: stronger, color, border: "1px solid transparent" };
    case "subtle":
      return { background: "transparent", hover: soft, color, border: "1px solid transparent" };
    case "filled":
      // Mantine's red is too light for white text.
      return tone === "bad" ? { background: "var(--bad-strong)", hover: "color-mix(in srgb, var(--bad-strong), #000 12%)", color: "#fff", border: "1px solid transparent" } : defaultVariantColorsResolver(input);
    case "outline":
      return { background: "transparent", hover: soft, color, border: `1px solid color-mix(in srgb, ${color} 45%, transparent)` };
    default:
      return defaultVariantColorsResolver(input);
  }
};

/** The title line is a <header>; its role prevents a second banner landmark of the page. */
const dialog = { overlayProps: { backgroundOpacity: 0.45, blur: 2 }, attributes: { header: { role: "presentation" } } };

export const theme = createTheme({
  variantColorResolver: variants,
  primaryColor: "indigo",
  primaryShade: { light: 7, dark: 6 },
  colors: { indigo, moon, dark, gray },
  black: "#1c2030",
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Ubuntu, Cantarell, sans-serif',
  fontFamilyMonospace:
    'ui-monospace, SFMono-Regular, "Cascadia Mono", "JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
  headings: { fontWeight: "650" },
  components: {
    Alert: Alert.extend({ styles: { message: { color: "var(--mantine-color-text)" } } }),
    Notification: { styles: { description: { color: "var(--mantine-color-dimmed)" } } },
    Tooltip: { defaultProps: { openDelay: 250, withArrow: true, events: { hover: true, focus: true, touch: true } } },
    // Close buttons of dialogs, drawers and toasts contain only an icon and need a label.
    CloseButton: { defaultProps: () => ({ "aria-label": i18next.t("Close") }) },
    Modal: { defaultProps: { centered: true, ...dialog } },
    Drawer: { defaultProps: dialog },
    // The placeholder for the initial focus is not a menu item, which a menu must not contain.
    Menu: { defaultProps: { shadow: "md", position: "bottom-end", withInitialFocusPlaceholder: false } },
  },
});

export const cssVariables: CSSVariablesResolver = () => ({
  variables: { "--mono": "var(--mantine-font-family-monospace)", "--bad-strong": "#b3261e" },
  light: {
    "--mantine-color-body": "#ffffff",
    "--mantine-color-dimmed": "#586178",
    "--mantine-color-error": "var(--bad)",
    "--mantine-color-anchor": "var(--active)",
    "--page": "#f5f6fa",
    "--card": "#ffffff",
    "--line": "#e3e6ef",
    "--well": "#f3f4f9",
    "--log": "#fbfbfd",
    "--good": "#0b7566",
    "--good-soft": "#e0f5f1",
    "--active": "#3a479d",
    "--active-soft": "#e8ebfb",
    "--waiting": "#8a5a00",
    "--waiting-soft": "#fdf1d7",
    "--warn": "#a8470a",
    "--warn-soft": "#fdeadd",
    "--bad": "#b3261e",
    "--bad-soft": "#fde8e7",
    "--neutral": "#525b72",
    "--neutral-soft": "#eceef4",
    "--ansi-black": "#33384a",
    "--ansi-red": "#b3261e",
    "--ansi-green": "#1a7f3c",
    "--ansi-yellow": "#8a5a00",
    "--ansi-blue": "#2b50c8",
    "--ansi-magenta": "#9433a8",
    "--ansi-cyan": "#0b7285",
    "--ansi-white": "#6a7186",
  },
  dark: {
    "--mantine-color-body": "#1d2130",
    "--mantine-color-dimmed": "#9aa1b8",
    "--mantine-color-error": "var(--bad)",
    "--mantine-color-anchor": "var(--active)",
    "--mantine-color-disabled": "#2a3042",
    "--mantine-color-disabled-color": "#8890a8",
    "--page": "#12151f",
    "--card": "#1a1e2b",
    "--line": "#2b3144",
    "--well": "#151925",
    "--log": "#0f121b",
    "--good": "#62d3c0",
    "--good-soft": "#143531",
    "--active": "#a5b1f2",
    "--active-soft": "#252c4c",
    "--waiting": "#efc06a",
    "--waiting-soft": "#382d16",
    "--warn": "#f3a06c",
    "--warn-soft": "#3b2619",
    "--bad": "#ff9c93",
    "--bad-soft": "#421f20",
    "--neutral": "#aab1c6",
    "--neutral-soft": "#272c3c",
    "--ansi-black": "#8b93a8",
    "--ansi-red": "#ff8a80",
    "--ansi-green": "#7ee2a0",
    "--ansi-yellow": "#f0c674",
    "--ansi-blue": "#8fb0ff",
    "--ansi-magenta": "#e29bf0",
    "--ansi-cyan": "#6fd6e5",
    "--ansi-white": "#f1f3f9",
  },
});
