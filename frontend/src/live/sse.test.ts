import { describe, expect, it } from "vitest";
import { backoff } from "./connection";
import { SseParser } from "./sse";

describe("SseParser", () => {
  const text = ': hi\nid: 7\nevent: job.state\ndata: {"a":\ndata: 1}\n\nid: 8\ndata: x\r\n\r\n: still here\n\n';

  it.each([1, 2, 3, 7, 1_000])("reads messages from pieces of %s characters", (size) => {
    const parser = new SseParser();
    const messages = [];
    for (let at = 0; at < text.length; at += size) messages.push(...parser.feed(text.slice(at, at + size)));
    expect(messages).toEqual([
      { id: "7", event: "job.state", data: '{"a":\n1}' },
      { id: "8", event: "message", data: "x" },
    ]);
  });

  it("keeps the last ID for messages without one", () => {
    const parser = new SseParser();
    parser.feed("id: 3\ndata: a\n\n");
    expect(parser.feed("data: b\n\n")).toEqual([{ id: "3", event: "message", data: "b" }]);
  });
});

describe("backoff", () => {
  it("doubles up to a maximum, with jitter", () => {
    expect([1, 2, 3, 20].map((failures) => backoff(failures, () => 1))).toEqual([500, 1_000, 2_000, 15_000]);
    expect(backoff(3, () => 0)).toBe(1_000);
  });
});
