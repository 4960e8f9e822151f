/** Names of browsers and programs that logged in, in the selected language. */
import i18next from "i18next";
import { msg } from "@/i18n/msg";

const PROGRAMS: readonly string[] = [msg("Aitne's command line"), msg("An unknown program")];

/** "Chrome on Linux", as the platform names a browser, in German: "Chrome unter Linux". */
export function describeDevice(device: string): string {
  const [program = "", system] = device.split(" on ");
  const browser = PROGRAMS.includes(program) ? i18next.t(program) : program;
  return system === undefined ? browser : i18next.t("{{browser}} on {{system}}", { browser, system });
}
