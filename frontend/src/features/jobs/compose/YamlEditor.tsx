import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { isAllSelected } from "./editor-selection";
import type { TextProblem } from "./job-yaml";

interface Props {
  label: string;
  hint: string;
  value: string;
  onChange: (text: string) => void;
  /** Takes a text that would replace all of the editor's; false: the text is inserted. */
  onReplace: (text: string) => boolean;
  problems: readonly TextProblem[];
}

/** Colours from the CSS variables of the portal, for both colour schemes. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--active)", fontWeight: "600" },
  { tag: [tags.string, tags.content], color: "var(--mantine-color-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--good)" },
  { tag: tags.comment, color: "var(--mantine-color-dimmed)", fontStyle: "italic" },
  { tag: [tags.keyword, tags.meta], color: "var(--waiting)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--log)", color: "var(--mantine-color-text)" },
  "&.cm-focused": { outline: "none" },
  // An outline would be below the gutter, which has a z-index of 200.
  "&.cm-focused::after": { content: '""', position: "absolute", inset: "0", zIndex: "201", border: "2px solid var(--mantine-color-indigo-5)", borderRadius: "0 0 12px 12px", pointerEvents: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--mantine-color-text)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-gutters": { backgroundColor: "var(--log)", color: "var(--mantine-color-dimmed)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--active-soft) 45%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--active-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", border: "1px solid var(--line)", borderRadius: "6px", color: "var(--mantine-color-text)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-placeholder": { color: "var(--mantine-color-dimmed)" },
});

/** A YAML editor with line numbers, colours and a mark at each line with a problem. */
export function YamlEditor({ label, hint, value, onChange, onReplace, problems }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ onChange, onReplace });
  useEffect(() => {
    latest.current = { onChange, onReplace };
  });
  useEffect(() => {
    if (box.current === null) return undefined;
    const editor = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          highlightActiveLine(),
          EditorView.lineWrapping,
          bracketMatching(),
          indentUnit.of("  "),
          yaml(),
          syntaxHighlighting(COLOURS),
          lintGutter(),
          THEME,
          placeholder(hint),
          // Escape leaves the field, because Tab indents.
          keymap.of([{ key: "Escape", run: (editor) => (editor.contentDOM.blur(), true) }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ "aria-label": label, "data-testid": "compose-yaml", spellcheck: "false" }),
          EditorView.domEventHandlers({
            paste: (event, editor) => {
              const text = event.clipboardData?.getData("text/plain") ?? "";
              return isAllSelected(editor.state) && latest.current.onReplace(text);
            },
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      view.current = null;
      editor.destroy();
    };
    // The effect below sets the text; a new label or hint creates a new editor.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [label, hint]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    const old = editor.state.doc.toString();
    if (old === value) return;
    // Replaces only the difference, to keep the cursor position.
    let start = 0;
    while (start < old.length && start < value.length && old[start] === value[start]) start += 1;
    let end = 0;
    while (end < old.length - start && end < value.length - start && old[old.length - 1 - end] === value[value.length - 1 - end]) end += 1;
    editor.dispatch({ changes: { from: start, to: old.length - end, insert: value.slice(start, value.length - end) } });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    const marks = problems.map(({ line, message }): Diagnostic => {
      const at = editor.state.doc.line(Math.min(Math.max(1, line), editor.state.doc.lines));
      const indent = /^\s*/.exec(at.text)?.[0].length ?? 0;
      return { from: at.from + indent, to: at.to, severity: "error", message };
    });
    editor.dispatch(setDiagnostics(editor.state, marks));
  }, [problems, value]);

  return <div ref={box} style={{ height: "100%", minHeight: 0 }} />;
}

export default YamlEditor;
