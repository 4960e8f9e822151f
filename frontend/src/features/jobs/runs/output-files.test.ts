import { expect, test } from "vitest";
import { outputAddress } from "./output-files";

test("the address of a file keeps its folders and encodes everything else", () => {
  expect(outputAddress("8f14", "out/model 1.pt")).toBe("/files/jobs/8f14/workdir/out/model%201.pt");
  expect(outputAddress("8f14", "100%?#&\n.txt")).toBe("/files/jobs/8f14/workdir/100%25%3F%23%26%0A.txt");
});
