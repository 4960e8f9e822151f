import { CodeText } from "@/components/CodeText";
import { translateServerText } from "@/i18n/server";

/** A message of the platform, translated where a translation exists. */
export function ServerText({ children }: { children: string }) {
  const { text, lang } = translateServerText(children);
  return (
    <span lang={lang}>
      <CodeText>{text}</CodeText>
    </span>
  );
}
