import { expect, test } from "vitest";
import { notebookName, notebookParameters, notebookState, pageAddress } from "./notebook";

test("the page's colours follow the portal's", () => {
  expect(pageAddress("1a", "dark")).toBe("/api/v1/jobs/1a/notebook.html#dark");
  expect(pageAddress("1a", "light")).toBe("/api/v1/jobs/1a/notebook.html#light");
});

test("a download has the name of the notebook", () => {
  expect(notebookName({ notebook: { path: "~/study/train ä.ipynb", parameters: {}, kernel: null } })).toBe("train ä.ipynb");
});

test("more cells may follow until the job has ended", () => {
  expect(notebookState({ ended_at: null })).toBe("running");
  expect(notebookState({ ended_at: "2026-01-01T00:00:00Z" })).toBe("ended");
});

test("parameters are shown as they are written in a job file", () => {
  expect(notebookParameters({ notebook: { path: "a.ipynb", kernel: null, parameters: { lr: 0.1, sizes: [1, { $float: "nan" }], name: "x", off: null, least: { $float: "-inf" }, quoted: ['{"$float":"inf"}'] } } })).toEqual([
    ["lr", "0.1"],
    ["sizes", "[1,.nan]"],
    ["name", "x"],
    ["off", "null"],
    ["least", "-.inf"],
    ["quoted", JSON.stringify(['{"$float":"inf"}'])],
  ]);
  expect(notebookParameters({ notebook: null })).toEqual([]);
});
