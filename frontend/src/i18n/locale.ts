import i18next from "i18next";

/** The language of numbers and dates: the browser's own kind of the chosen language (en-GB, de-AT), else the language. */
export function locale(): string {
  const language = i18next.language || "en";
  return navigator.languages.find((each) => each.slice(0, 2) === language) ?? language;
}
