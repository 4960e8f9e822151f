import { expect, it } from "vitest";
import { settingText } from "./setting-text";

it("writes amounts with their unit", () => {
  expect(settingText({ value: "68719476736", unit: "bytes" })).toBe("64\u00a0GiB");
  expect(settingText({ value: "604800", unit: "seconds" })).toBe("7\u00a0d");
});

it("leaves other values as they are in the file", () => {
  expect(settingText({ value: "8000", unit: null })).toBe("8000");
  expect(settingText({ value: '"forever"', unit: "seconds" })).toBe("forever");
  expect(settingText({ value: null, unit: "bytes" })).toBeNull();
});
