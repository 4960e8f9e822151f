import { Monitor, Moon, Sun } from "lucide-react";
import { msg } from "@/i18n/msg";

/** The colours somebody can choose. */
export const SCHEMES = [
  { value: "auto", label: msg("Like the system"), icon: Monitor },
  { value: "light", label: msg("Light"), icon: Sun },
  { value: "dark", label: msg("Dark"), icon: Moon },
] as const;
