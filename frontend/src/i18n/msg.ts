/** Marks an English text that is translated where it is shown: `label: msg("Jobs")`, later `t(page.label)`. */
export function msg<Text extends string>(text: Text): Text {
  return text;
}
