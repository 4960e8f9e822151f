import { describe, expect, it } from "vitest";
import { formatBytes, GIB, memoryStops, memoryText, MIB, plural } from "./units";

describe("memory", () => {
  it.each([
    [512, "512 B"],
    [16 * GIB, "16 GB"],
    [1.5 * GIB, "1.5 GB"],
    [200 * GIB + 1, "200 GB"],
  ])("%s bytes are shown as %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it.each([
    [16 * GIB, "16G"],
    [1536 * MIB, "1536M"],
    [1000, "1000B"],
  ])("%s bytes are sent as %s", (bytes, text) => expect(memoryText(bytes)).toBe(text));

  it("has stops that grow, with both bounds and the present value", () => {
    const stops = memoryStops(512 * MIB, 23 * GIB, [5 * GIB]);
    expect(stops.at(0)).toBe(512 * MIB);
    expect(stops.at(-1)).toBe(23 * GIB);
    expect(stops).toContain(5 * GIB);
    expect(stops).toEqual([...stops].sort((a, b) => a - b));
    expect(new Set(stops).size).toBe(stops.length);
  });
});

it("counts in words", () => {
  expect(plural(1, "CPU")).toBe("1 CPU");
  expect(plural(4, "CPU")).toBe("4 CPUs");
  expect(plural(2, "match", "matches")).toBe("2 matches");
});
