import { expect, it } from "vitest";
import { linkParts } from "./links";

it("finds web addresses, without the punctuation of the sentence", () => {
  expect(linkParts("See https://status.example.org/a?b=1. Or (http://x.org), please")).toEqual([
    { text: "See " },
    { text: "https://status.example.org/a?b=1", href: "https://status.example.org/a?b=1" },
    { text: ". Or (" },
    { text: "http://x.org", href: "http://x.org" },
    { text: "), please" },
  ]);
});

it("links nothing but http and https", () => {
  for (const text of ["", "no address", "javascript:alert(1)", "mailto:a@b.org"]) expect(linkParts(text).every((part) => part.href === undefined)).toBe(true);
});
