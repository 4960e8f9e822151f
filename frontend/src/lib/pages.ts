/**
 * The portal's pages for the navigation, the command palette and the keyboard shortcuts.
 * A new page is one line here and a route in router.tsx.
 */
import type { RegisteredRouter } from "@tanstack/react-router";
import {
  Activity, Bell, Box, Boxes, ChartLine, Database, FolderOpen, House, KeyRound, Layers, ListTree, LockKeyhole, type LucideIcon, Megaphone, Monitor, ScrollText, Server, ServerCog, ShieldCheck, SlidersHorizontal, UserRound, Users,
} from "lucide-react";
import { msg } from "@/i18n/msg";

/** Paths without parameters, and without the index paths of areas with a trailing slash. */
type WithoutParameters<Path> = Path extends `${string}$${string}` | `/${string}/` ? never : Path;
export type PagePath = WithoutParameters<keyof RegisteredRouter["routesByPath"]>;

/** Location: the header, its "Data" menu, the user menu, or the administration. */
export type PageArea = "main" | "data" | "account" | "admin";

export interface PageEntry {
  to: PagePath;
  label: string;
  icon: LucideIcon;
  area: PageArea;
  /** Additional search words of the palette. */
  words?: string;
  /** The letter that opens the page after `g`. */
  letter?: string;
}

export const PAGES: readonly PageEntry[] = [
  { to: "/", label: msg("Home"), icon: House, area: "main", words: msg("dashboard launch sessions"), letter: "h" },
  { to: "/jobs", label: msg("Jobs"), icon: ListTree, area: "main", words: msg("runs history queue"), letter: "j" },
  { to: "/cluster", label: msg("Cluster"), icon: Server, area: "main", words: msg("nodes GPUs partitions"), letter: "c" },
  { to: "/images", label: msg("Images"), icon: Box, area: "data", words: msg("containers software"), letter: "i" },
  { to: "/datasets", label: msg("Datasets"), icon: Database, area: "data", words: msg("data files"), letter: "d" },
  { to: "/projects", label: msg("Projects"), icon: FolderOpen, area: "main", words: msg("limits members usage"), letter: "p" },
  { to: "/account/profile", label: msg("Account"), icon: UserRound, area: "account", words: msg("profile name mail") },
  { to: "/account/security", label: msg("Password and second factor"), icon: ShieldCheck, area: "account", words: msg("security TOTP recovery codes") },
  { to: "/account/sign-ins", label: msg("Logins"), icon: Monitor, area: "account", words: msg("browsers devices log out everywhere") },
  { to: "/notifications", label: msg("Notifications"), icon: Bell, area: "account", words: msg("inbox messages mail webhooks"), letter: "n" },
  { to: "/account/tokens", label: msg("Access tokens"), icon: KeyRound, area: "account", words: msg("API command line") },
  { to: "/account/secrets", label: msg("Secrets"), icon: LockKeyhole, area: "account", words: msg("keys passwords environment variables") },
  { to: "/admin", label: msg("Overview"), icon: Activity, area: "admin", words: msg("administration health problems"), letter: "a" },
  { to: "/admin/jobs", label: msg("Jobs and sessions"), icon: Layers, area: "admin", words: msg("all users cancel") },
  { to: "/admin/load", label: msg("Load and queues"), icon: ChartLine, area: "admin", words: msg("utilization wait time heat map reservations") },
  { to: "/admin/nodes", label: msg("Nodes"), icon: ServerCog, area: "admin", words: msg("drain resume history") },
  { to: "/admin/users", label: msg("Users"), icon: Users, area: "admin", words: msg("accounts") },
  { to: "/admin/announcements", label: msg("Announcements"), icon: Megaphone, area: "admin", words: msg("maintenance banner") },
  { to: "/admin/catalogue", label: msg("Templates and images"), icon: Boxes, area: "admin", words: msg("catalogue retire") },
  { to: "/admin/audit", label: msg("Audit log"), icon: ScrollText, area: "admin", words: msg("changes actions") },
  { to: "/admin/settings", label: msg("Settings"), icon: SlidersHorizontal, area: "admin", words: msg("configuration aitne.toml") },
];

export function pagesOf(area: PageArea): PageEntry[] {
  return PAGES.filter((page) => page.area === area);
}

/** The pages available to a role. */
export function pagesFor(role: "user" | "admin"): PageEntry[] {
  return PAGES.filter((page) => page.area !== "admin" || role === "admin");
}
