/** The portal's languages. The English text is the key: `t("Launch")`; `de.json` has the same keys in German. */
import i18next, { type FormatterModule } from "i18next";
import { initReactI18next } from "react-i18next";
import { learnSentences } from "@/i18n/server";
import { formatNumber } from "@/lib/units";
import en from "./en.json";

export const LANGUAGES = [
  { value: "en", label: "English" },
  { value: "de", label: "Deutsch" },
] as const;
export type Language = (typeof LANGUAGES)[number]["value"];

const KEPT_AS = "aitne-language";

function wanted(): Language {
  const kept = localStorage.getItem(KEPT_AS);
  const first = (kept ?? navigator.language).slice(0, 2);
  return LANGUAGES.find(({ value }) => value === first)?.value ?? "en";
}

async function load(language: Language): Promise<void> {
  if (language === "en" || i18next.hasResourceBundle(language, "translation")) return;
  const [{ default: texts }, { default: sentences }] = await Promise.all([import("./de.json"), import("./server.json")]);
  learnSentences(sentences);
  i18next.addResourceBundle(language, "translation", texts);
}

/** Numbers in texts: 1.234,5 in German. */
const NUMBERS: FormatterModule = {
  type: "formatter",
  init: () => undefined,
  add: () => undefined,
  addCached: () => undefined,
  format: (value: unknown) => (typeof value === "number" ? formatNumber(value) : String(value)),
};

/** English, which is there at once. */
export async function startTexts(): Promise<void> {
  await i18next.use(initReactI18next).use(NUMBERS).init({
    lng: "en",
    fallbackLng: "en",
    resources: { en: { translation: en } },
    // A key is a sentence, which may have colons and full stops.
    keySeparator: false,
    nsSeparator: false,
    // React escapes what it renders; every number comes in the language's own form.
    interpolation: { escapeValue: false, alwaysFormat: true },
    returnEmptyString: false,
  });
}

/** Before the first render: in the language that was chosen here, or the browser's. */
export async function startLanguage(): Promise<void> {
  await startTexts();
  await setLanguage(wanted());
}

/** Show the portal in another language, here and at the next visit. */
export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

/** As `setLanguage`, and keep the choice in this browser. */
export async function chooseLanguage(language: Language): Promise<void> {
  localStorage.setItem(KEPT_AS, language);
  await setLanguage(language);
}
