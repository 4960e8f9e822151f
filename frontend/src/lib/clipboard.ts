/** Copies text. Plain HTTP has no clipboard API; there an invisible field and `execCommand` are used. */
export async function copyText(text: string): Promise<boolean> {
  const clipboard = (navigator as { clipboard?: Clipboard }).clipboard;
  if (clipboard !== undefined) {
    try {
      await clipboard.writeText(text);
      return true;
    } catch {
      // Not permitted: `execCommand` can still work.
    }
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.style.position = "fixed";
  field.style.opacity = "0";
  document.body.append(field);
  field.select();
  try {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way on plain HTTP
    return document.execCommand("copy");
  } finally {
    field.remove();
  }
}
