import { describe, expect, it } from "vitest";
import { ansiPieces, stripAnsi } from "./ansi";

describe("ansiPieces", () => {
  it("draws the named colours, bold and dim", () => {
    expect(ansiPieces("a \x1b[1;31mred\x1b[0m b \x1b[92mgreen")).toEqual([
      { text: "a ", style: "" },
      { text: "red", style: "ansi-red ansi-bold" },
      { text: " b ", style: "" },
      { text: "green", style: "ansi-green" },
    ]);
  });

  it("uses the palette's first 16 colours and ignores true colours", () => {
    expect(ansiPieces("\x1b[38;5;1mx\x1b[38;2;1;2;3my")).toEqual([
      { text: "x", style: "ansi-red" },
      { text: "y", style: "" },
    ]);
    expect(ansiPieces("\x1b[48;5;1;1mx")).toEqual([{ text: "x", style: "ansi-bold" }]);
  });

  it("drops all other escape sequences", () => {
    const line = "\x1b[2J\x1b]0;title\x07\x1b[?25la\x00\x08b\x1b(Bc";
    expect(stripAnsi(line)).not.toMatch(/[\x00-\x08\x1b]/); // eslint-disable-line no-control-regex
    expect(ansiPieces(line).map((piece) => piece.text).join("")).toContain("ab");
  });

  it("keeps text unchanged, including tabs and HTML", () => {
    const line = "<b>\tnot bold</b> 🦉";
    expect(stripAnsi(line)).toBe(line);
    expect(ansiPieces(line)).toEqual([{ text: line, style: "" }]);
  });
});
