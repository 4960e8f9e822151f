import { describe, expect, it } from "vitest";
import { LogBuffer } from "./log-buffer";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("LogBuffer", () => {
  it("joins lines from chunks, also within a character", () => {
    const buffer = new LogBuffer();
    const data = bytes("first\nsecond 🦉 line\nopen");
    for (const byte of data) buffer.append(Uint8Array.of(byte));
    expect(buffer.lines()).toEqual(["first", "second 🦉 line", "open"]);
    expect(buffer.length).toBe(3);
    expect(buffer.line(2)).toBe("open");
    buffer.appendText(" ended\n");
    expect(buffer.line(2)).toBe("open ended");
  });

  it("shows a progress bar as a terminal does", () => {
    const buffer = new LogBuffer();
    buffer.appendText(" 10%\r 20%\r 30%");
    expect(buffer.lines()).toEqual([" 30%"]);
    buffer.appendText("\r100%\r\nnext\r\n");
    expect(buffer.lines()).toEqual(["100%", "next"]);
  });

  it("keeps the last lines and counts the dropped ones", () => {
    const buffer = new LogBuffer({ maxLines: 100, maxLineLength: 50 });
    for (let i = 0; i < 1_000; i += 1) buffer.appendText(`line ${i}\n`);
    expect(buffer.length).toBeLessThanOrEqual(110);
    expect(buffer.dropped + buffer.length).toBe(1_000);
    expect(buffer.line(buffer.length - 1)).toBe("line 999");
    expect(buffer.line(0)).toBe(`line ${buffer.dropped}`);
  });

  it("splits a line without an end", () => {
    const buffer = new LogBuffer({ maxLines: 100, maxLineLength: 10 });
    buffer.appendText("x".repeat(35));
    buffer.appendText(`\n${"y".repeat(12)}\n`);
    expect(buffer.lines().map((line) => line.length)).toEqual([10, 10, 10, 5, 10, 2]);
  });

  it("takes 10 MB quickly", () => {
    const buffer = new LogBuffer();
    const chunk = bytes(`${"0123456789".repeat(8)}\n`.repeat(1_000));
    const before = performance.now();
    for (let i = 0; i < 130; i += 1) buffer.append(chunk);
    expect(buffer.length).toBe(130_000);
    expect(performance.now() - before).toBeLessThan(3_000);
  });

  it("changes its version only with its content", () => {
    const buffer = new LogBuffer();
    const before = buffer.version;
    buffer.appendText("");
    expect(buffer.version).toBe(before);
    buffer.appendText("x");
    expect(buffer.version).toBeGreaterThan(before);
    buffer.clear();
    expect(buffer.length).toBe(0);
  });
});
