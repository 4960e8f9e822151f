import { Monitor, Moon, Sun } from "lucide-react";
import { msg } from "@/i18n/msg";

/** The colour schemes that users can select. */
export const SCHEMES = [
  { value: "auto", label: msg("System default"), icon: Monitor },
  { value: "light", label: msg("Light"), icon: Sun },
  { value: "dark", label: msg("Dark"), icon: Moon },
] as const;
