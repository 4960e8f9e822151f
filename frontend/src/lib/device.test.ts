import { afterEach, expect, it } from "vitest";
import { setLanguage } from "@/i18n";
import { describeDevice } from "./device";

Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
afterEach(() => setLanguage("en"));

it.each([
  ["Chrome on Linux", "Chrome unter Linux"],
  ["Samsung Internet on Android", "Samsung Internet unter Android"],
  ["iPhone", "iPhone"],
  ["Aitne's command line on Linux", "Aitne-Kommandozeile unter Linux"],
  ["An unknown program", "Unbekanntes Programm"],
])("%s is %s in German", async (english, german) => {
  expect(describeDevice(english)).toBe(english);
  await setLanguage("de");
  expect(describeDevice(english)).toBe(german);
});
