import { readFileSync } from "node:fs";
import i18next from "i18next";
import { describe, expect, it } from "vitest";
import { formatBytes, formatEnergy, formatNumber, GIB, memoryStops, memoryText, MIB, unbroken } from "./units";

describe("memory", () => {
  // The same table holds for the platform's messages and the command line.
  const amounts = JSON.parse(readFileSync(new URL("../../../tests/assets/amounts.json", import.meta.url), "utf8")) as { bytes: number; en: string; de: string }[];

  it.each(amounts)("$bytes bytes are shown as $en", async ({ bytes, en, de }) => {
    // No line breaks between the number and its unit.
    expect(formatBytes(bytes)).toBe(en.replace(" ", "\u00a0"));
    await i18next.changeLanguage("de");
    expect(formatBytes(bytes)).toBe(de.replace(" ", "\u00a0"));
    await i18next.changeLanguage("en");
  });

  it.each([
    [16 * GIB, "16G"],
    [1536 * MIB, "1536M"],
    [1000, "1000B"],
  ])("%s bytes are sent as %s", (bytes, text) => expect(memoryText(bytes)).toBe(text));

  it("has ascending stops with both bounds and the current value", () => {
    const stops = memoryStops(512 * MIB, 23 * GIB, [5 * GIB]);
    expect(stops.at(0)).toBe(512 * MIB);
    expect(stops.at(-1)).toBe(23 * GIB);
    expect(stops).toContain(5 * GIB);
    expect(stops).toEqual([...stops].sort((a, b) => a - b));
    expect(new Set(stops).size).toBe(stops.length);
  });
});

describe("numbers", () => {
  it.each([
    [0, "0"],
    [0.001, "< 0.01"],
    [0.005, "0.01"],
    [1.5, "1.5"],
    [1234.567, "1,234.57"],
  ])("%s is shown as %s", (value, text) => expect(formatNumber(value)).toBe(text));
});

it("lines do not break between an amount and its unit", () => {
  expect(unbroken("It ran for 1 h 30 min on 2 days; 80 % of 1.5 GiB.")).toBe("It ran for 1\u00a0h 30\u00a0min on 2 days; 80\u00a0% of 1.5\u00a0GiB.");
});

it("writes energy in watt-hours", () => {
  expect([0, 540, 540_000, 7_200_000, 3.6e9].map(formatEnergy)).toEqual(["0\u00a0Wh", "0.2\u00a0Wh", "150\u00a0Wh", "2\u00a0kWh", "1,000\u00a0kWh"]);
});
