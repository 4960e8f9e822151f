import { describe, expect, it } from "vitest";
import { durationWords, formatDuration, formatRelative, formatTicking, parseDuration, secondsBetween } from "./time";

describe("formatDuration", () => {
  it.each([
    [0, "0.0\u00a0s"],
    [3.24, "3.2\u00a0s"],
    [9.96, "10\u00a0s"],
    [59.4, "59\u00a0s"],
    [59.7, "1\u00a0min"],
    [75, "1\u00a0min 15\u00a0s"],
    [3_600, "1\u00a0h"],
    [5_400, "1\u00a0h 30\u00a0min"],
    [86_399, "23\u00a0h 59\u00a0min"],
    [100_000, "1\u00a0d 3\u00a0h"],
    [-5, "0.0\u00a0s"],
  ])("%s s is %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));
});

describe("formatTicking", () => {
  it("has whole seconds only", () => {
    expect(formatTicking(3.9)).toBe("3\u00a0s");
    expect(formatTicking(65.9)).toBe("1\u00a0min 5\u00a0s");
  });
});

describe("formatRelative", () => {
  const now = new Date("2026-03-01T12:00:00Z");
  const at = (seconds: number) => new Date(now.getTime() + seconds * 1000);
  it.each([
    [-3, "just now"],
    [-45, "45\u00a0s ago"],
    [-300, "5\u00a0min ago"],
    [-7_200, "2\u00a0h ago"],
    [-200_000, "2\u00a0d ago"],
    [1_500, "in 25\u00a0min"],
    [7 * 86_400 - 20, "in 7\u00a0d"],
  ])("%s s from now is %s", (seconds, text) => expect(formatRelative(at(seconds), now)).toBe(text));
});

describe("durations in the platform's syntax", () => {
  it.each([
    [5_400, "1h30m"],
    [86_400, "1d"],
    [90_061, "1d1h1m1s"],
    [0, "0s"],
  ])("%s is written %s and read back", (seconds, text) => {
    expect(durationWords(seconds)).toBe(text);
    expect(parseDuration(text)).toBe(seconds);
  });

  it("parses common notations", () => {
    expect(parseDuration("2 h 15 min")).toBe(8_100);
    expect(parseDuration("1w")).toBe(604_800);
  });

  it.each(["", "soon", "-1h", "1h2", "1.5h"])("%j is none", (text) => expect(parseDuration(text)).toBeNull());
});

describe("secondsBetween", () => {
  it("uses now without an end, and is never negative", () => {
    const now = new Date("2026-03-01T12:00:10Z");
    expect(secondsBetween("2026-03-01T12:00:00Z", null, now)).toBe(10);
    expect(secondsBetween("2026-03-01T12:00:00Z", "2026-03-01T12:00:04Z", now)).toBe(4);
    expect(secondsBetween("2026-03-01T13:00:00Z", null, now)).toBe(0);
  });
});
