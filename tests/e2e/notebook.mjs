// A new notebook of a session: its cells are typed and run one after the other.
import { SLOW } from "./browser.mjs";

/** Create a notebook from JupyterLab's launcher; what types and runs its cells. */
export async function newNotebook(lab) {
  const cells = lab.locator(".jp-Notebook .jp-CodeCell");
  await lab.locator('.jp-LauncherCard[data-category="Notebook"]').first().click();
  await cells.first().locator(".cm-content").waitFor(SLOW);
  await lab.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first().waitFor({ timeout: 180_000, state: "attached" });
  let count = 0;

  /** Type code into the last cell; that cell. */
  async function type(code) {
    const cell = cells.nth(count);
    await cell.locator(".cm-content").click();
    await lab.keyboard.insertText(code);
    count += 1;
    return cell;
  }

  /** Begin to run the last cell. */
  async function begin(cell) {
    await lab.keyboard.press("Shift+Enter");
    // JupyterLab drops what is run while it still connects to the kernel; a person presses again.
    for (let press = 0; count === 1 && press < 6; press += 1) {
      const begun = await prompt(cell, /[*\d]/).waitFor({ timeout: 10_000 }).then(() => true, () => false);
      if (begun) return;
      await cell.locator(".cm-content").click();
      await lab.keyboard.press("Shift+Enter");
    }
    await prompt(cell, /[*\d]/).waitFor(SLOW);
  }

  const prompt = (cell, text) => cell.locator(".jp-InputPrompt").filter({ hasText: text });
  const output = (cell) => cell.locator(".jp-OutputArea");

  /** Run code in a new cell until it has ended; its output's text, which contains `text`. */
  async function run(code, text, patience = SLOW) {
    const cell = await type(code);
    await begin(cell);
    if (text !== undefined) await output(cell).filter({ hasText: text }).waitFor(patience);
    await prompt(cell, /\d/).waitFor(patience);
    return output(cell).textContent();
  }

  return { type, begin, output, run, first: () => cells.first(), last: () => cells.nth(count - 1) };
}
