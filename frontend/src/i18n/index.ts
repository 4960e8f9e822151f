/** The portal's languages. The English text is the key: `t("Launch")`; `de.json` has the same keys in German. */
import i18next, { type FormatterModule } from "i18next";
import { initReactI18next } from "react-i18next";
import { setServerSentences } from "@/i18n/server";
import { formatNumber } from "@/lib/units";
import en from "./en.json";

export const LANGUAGES = [
  { value: "en", label: "English" },
  { value: "de", label: "Deutsch" },
] as const;
export type Language = (typeof LANGUAGES)[number]["value"];

const STORAGE_KEY = "aitne-language";

function initialLanguage(): Language {
  const stored = localStorage.getItem(STORAGE_KEY);
  const language = (stored ?? navigator.language).slice(0, 2);
  return LANGUAGES.find(({ value }) => value === language)?.value ?? "en";
}

async function load(language: Language): Promise<void> {
  if (language === "en" || i18next.hasResourceBundle(language, "translation")) return;
  const [{ default: texts }, { default: sentences }] = await Promise.all([import("./de.json"), import("./server.json")]);
  setServerSentences(sentences);
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

/** Initializes i18next with the English texts. */
export async function startTexts(): Promise<void> {
  await i18next.use(initReactI18next).use(NUMBERS).init({
    lng: "en",
    fallbackLng: "en",
    resources: { en: { translation: en } },
    // A key is a text, which can contain colons and full stops.
    keySeparator: false,
    nsSeparator: false,
    // React escapes rendered texts; numbers are formatted for the language.
    interpolation: { escapeValue: false, alwaysFormat: true },
    returnEmptyString: false,
  });
}

/** Called before the first render: selects the stored language or the browser's. */
export async function startLanguage(): Promise<void> {
  await startTexts();
  await setLanguage(initialLanguage());
}

/** Switch the language of the portal. */
export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

/** Switch the language and store it in this browser. */
export async function chooseLanguage(language: Language): Promise<void> {
  localStorage.setItem(STORAGE_KEY, language);
  await setLanguage(language);
}
