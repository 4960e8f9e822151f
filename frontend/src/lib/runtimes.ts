/** Names of container runtimes, and the value for none. */
import i18next from "i18next";
import { msg } from "@/i18n/msg";

/** The value for no container: the host's software. */
export const BARE = "bare";

const RUNTIMES: Record<string, string> = { apptainer: "Apptainer", docker: "Docker", bare: msg("No container (host software)") };

export function runtimeTitle(name: string): string {
  const title = RUNTIMES[name];
  return title === undefined ? name : i18next.t(title);
}
