import { said } from "@/i18n/server";

/** A sentence of the platform, in the reader's language where there is one for it. */
export function Said({ children }: { children: string }) {
  const { text, lang } = said(children);
  return lang === undefined ? text : <span lang={lang}>{text}</span>;
}
