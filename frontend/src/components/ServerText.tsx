import { translateServerText } from "@/i18n/server";

/** A message of the platform, translated where a translation exists. */
export function ServerText({ children }: { children: string }) {
  const { text, lang } = translateServerText(children);
  return lang === undefined ? text : <span lang={lang}>{text}</span>;
}
