import { EditorSelection, EditorState } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { isAllSelected } from "./editor-selection";

function editor(doc: string, from = 0, to = from) {
  return EditorState.create({ doc, selection: EditorSelection.single(from, to) });
}

describe("isAllSelected", () => {
  it("holds for an empty editor and for a selection of the whole text", () => {
    expect(isAllSelected(editor(""))).toBe(true);
    expect(isAllSelected(editor(" \n"))).toBe(true);
    expect(isAllSelected(editor("name: x\n", 0, 8))).toBe(true);
    expect(isAllSelected(editor("name: x\n\n", 0, 7))).toBe(true);
  });

  it("does not hold while a part of the text stays", () => {
    expect(isAllSelected(editor("name: x\n"))).toBe(false);
    expect(isAllSelected(editor("name: x\n", 1, 8))).toBe(false);
  });
});
