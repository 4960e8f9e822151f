import { Bell, KeyRound, LockKeyhole, type LucideIcon, Monitor, ShieldCheck, UserRound } from "lucide-react";
import { msg } from "@/i18n/msg";
import type { PagePath } from "@/lib/pages";

interface Tab {
  to: PagePath;
  label: string;
  icon: LucideIcon;
}

/** Tabs of the account pages. Each has a route in router.tsx. */
export const ACCOUNT_TABS: readonly Tab[] = [
  { to: "/account/profile", label: msg("Profile"), icon: UserRound },
  { to: "/account/security", label: msg("Security"), icon: ShieldCheck },
  { to: "/account/sign-ins", label: msg("Logins"), icon: Monitor },
  { to: "/account/notifications", label: msg("Notifications"), icon: Bell },
  { to: "/account/tokens", label: msg("Access tokens"), icon: KeyRound },
  { to: "/account/secrets", label: msg("Secrets"), icon: LockKeyhole },
];
