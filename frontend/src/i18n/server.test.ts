import i18next from "i18next";
import { afterEach, beforeEach, expect, it } from "vitest";
import { setLanguage } from "@/i18n";
import { said } from "@/i18n/server";

beforeEach(async () => {
  // What a browser has and Node has not.
  Object.assign(globalThis, { document: { documentElement: { lang: "" } } });
  await setLanguage("de");
});
afterEach(() => setLanguage("en"));

it("translates a sentence that the platform is known to say", () => {
  expect(said("Waits behind jobs of higher priority.")).toEqual({ text: "Wartet hinter Jobs höherer Priorität." });
});

it("keeps names and numbers of a sentence", () => {
  expect(said("Waits for 4 GPUs: 3 of 4 are free").text).toBe("Wartet auf 4 GPUs: frei 3 von 4.");
  expect(said("12 tasks: 4 running, 8 queued.").text).toBe("12 Tasks: 4 laufen, 8 warten.");
  expect(said("The program ended with exit code 137.").text).toBe("Das Programm endete mit Exit-Code 137.");
});

it("shows what it does not know as it came, and says that it is English", () => {
  expect(said("Slurm says (nothing).")).toEqual({ text: "Slurm says (nothing).", lang: "en" });
});

it("writes numbers as the language does", () => {
  expect(i18next.t("{{count}} files", { count: 12_345 })).toBe("12.345 Dateien");
  expect(i18next.t("{{count}} files", { count: 1 })).toBe("1 Datei");
});
