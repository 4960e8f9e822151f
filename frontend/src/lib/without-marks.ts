/** A text without the backticks around code in it, for what shows plain text only, such as a tooltip. */
export function withoutMarks(text: string): string {
  return text.replace(/`([^`]+)`/g, "$1");
}
