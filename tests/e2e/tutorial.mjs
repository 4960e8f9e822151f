// The cells of docs/tutorial/distributed-notebook.md in a notebook of the newest session, and the pictures of that page.
// Further argument: the cells as JSON, each with its code, and the lines of its output that the page shows.
import { card, expect, finish, further, logIn, openLab, page, portal, shot, SLOW, step } from "./browser.mjs";
import { newNotebook } from "./notebook.mjs";

// Ranks wait for CPUs, and import PyTorch.
const PATIENT = { timeout: 180_000 };
const cells = JSON.parse(further[0]);

await step("log in by the one-time link", logIn);
await card.getByTestId("session-open").waitFor(SLOW);
const lab = await step("open the session", openLab);
const notebook = await step("create a notebook", () => newNotebook(lab));
for (const { code, lines } of cells) {
  await step(code.split("\n").slice(0, 2).join(" "), async () => {
    const output = await notebook.run(code, lines[0], PATIENT);
    for (const line of lines) expect(output.includes(line), `${line} is not in ${output}`);
    if (code.includes("plt.plot")) {
      await lab.setViewportSize({ width: 1280, height: 1440 });
      await notebook.first().scrollIntoViewIfNeeded();
      await notebook.output(notebook.last()).locator("img").waitFor(SLOW);
      await shot(lab, "notebook-training");
      await page.goto(portal);
      await card.getByText("2 ranks").first().waitFor(SLOW);
      await shot(page, "session-ranks");
      await lab.bringToFront();
    }
  });
}
await finish();
