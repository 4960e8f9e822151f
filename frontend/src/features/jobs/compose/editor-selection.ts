import type { EditorState } from "@codemirror/state";

/** Whether a text that is pasted now would replace all of the editor's text. */
export function isAllSelected(state: EditorState): boolean {
  return state.update(state.replaceSelection("")).newDoc.toString().trim() === "";
}
