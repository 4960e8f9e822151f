import i18next from "i18next";

/** The locale of numbers and dates: the browser's variant of the selected language (en-GB, de-AT), else the language. */
export function locale(): string {
  const language = i18next.language || "en";
  return navigator.languages.find((tag) => tag.slice(0, 2) === language) ?? language;
}
