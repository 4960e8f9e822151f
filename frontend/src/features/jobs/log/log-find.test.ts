import { describe, expect, it } from "vitest";
import { findLines, firstError, lastLineWith, matcher, pieces } from "./log-find";

const at = (lines: string[]) => firstError(lines);

describe("the first error", () => {
  it.each([
    ["Traceback (most recent call last):"],
    ["[rank1]: Traceback (most recent call last):"],
    ["ValueError: bad value"],
    ["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"],
    ["\u001b[31mRuntimeError\u001b[0m: no"],
    ["KeyboardInterrupt"],
    ["Segmentation fault (core dumped)"],
    ["bash: line 3: pyhton: command not found"],
    ["cat: data.txt: No such file or directory"],
    ["srun: error: node01: task 0: Exited with exit code 1"],
    ["slurmstepd: error: Detected 1 oom_kill event"],
    ["*** JOB 12 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***"],
    ["2026-01-01 12:00:00 ERROR worker died"],
    ["make: error: no rule"],
  ])("is found in %j", (line) => {
    expect(at(["epoch 1", line, "after"])).toBe(1);
  });

  it.each([
    ["epoch 1 loss 0.3 error: 0.12"],
    ["val_error: 0.5"],
    ["0 errors, 2 warnings"],
    ["ERROR: 0.03"],
    ["we handle OSErrors gracefully"],
    ["INFO no terror here"],
    ["except ValueError as error"],
  ])("is not %j", (line) => {
    expect(at([line])).toBeNull();
  });

  it("is a certain error, even after a likely one", () => {
    expect(at(["ERROR retrying", "fine", "Traceback (most recent call last):", "ValueError: x"])).toBe(2);
    expect(at(["ok", "ERROR retrying", "ERROR again"])).toBe(1);
    expect(at([])).toBeNull();
  });
});

describe("a search", () => {
  const lines = ["Epoch 1", "loss 0.5 (best)", "\u001b[32mepoch\u001b[0m 2", "a.b"];

  it("finds literal text", () => {
    expect(findLines(lines, matcher({ text: "EPOCH", pattern: false }))).toEqual([0, 2]);
    expect(findLines(lines, matcher({ text: "(best", pattern: false }))).toEqual([1]);
    expect(findLines(lines, matcher({ text: "a.b", pattern: false }))).toEqual([3]);
    expect(findLines(lines, matcher({ text: "", pattern: false }))).toEqual([]);
    expect(findLines(lines, matcher({ text: "o", pattern: false }), 1)).toEqual([0]);
  });

  it("finds by a regular expression, and nothing by an invalid one", () => {
    expect(findLines(lines, matcher({ text: "epoch \\d", pattern: true }))).toEqual([0, 2]);
    expect(matcher({ text: "(", pattern: true })).toBeNull();
  });

  it("marks the matching pieces", () => {
    const wanted = matcher({ text: "s+", pattern: true });
    expect(wanted && pieces("loss is", wanted)).toEqual([
      { text: "lo", hit: false },
      { text: "ss", hit: true },
      { text: " i", hit: false },
      { text: "s", hit: true },
    ]);
    expect(wanted && pieces("x", wanted)).toEqual([{ text: "x", hit: false }]);
    const nothing = matcher({ text: "z*", pattern: true });
    expect(nothing && pieces("ab", nothing)).toEqual([{ text: "ab", hit: false }]);
  });
});

it("finds the last line with a text, also a shortened one", () => {
  const lines = ["ValueError: a", "\u001b[31mValueError: a\u001b[0m and more", "end"];
  expect(lastLineWith(lines, "ValueError: a")).toBe(1);
  expect(lastLineWith(lines, "ValueError: a and…")).toBe(1);
  expect(lastLineWith(lines, "KeyError")).toBeNull();
});
