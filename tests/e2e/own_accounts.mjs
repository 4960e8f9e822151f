// A user's JupyterLab on a platform whose jobs run as their users' Unix accounts. Further arguments: the code of a cell, which prints
// "done", and the address of another user's session, or nothing. The session stays.
import { card, context, expect, finish, further, logIn, openLab, page, runCell, shot, SLOW, step } from "./browser.mjs";

const [code, other] = further;

await step("log in by the one-time link", logIn);

await step("see no note about a shared account in the launch form", async () => {
  await page.getByTestId("template-jupyterlab").click();
  await page.getByTestId("launch-submit").waitFor(SLOW);
  expect((await page.getByTestId("shared-account").count()) === 0, "jobs are said to share an account");
});

await step("launch JupyterLab", async () => {
  await page.getByTestId("launch-submit").click();
  await card.getByTestId("session-open").waitFor(SLOW);
});

const lab = await step("open it", openLab);

await step("run the cell", async () => {
  expect((await runCell(lab, code, ".jp-OutputArea-output")) === "done", "the cell failed");
  await shot(lab, "own-account");
});

if (other) {
  await step("another user's session is closed", async () => {
    const opened = await context.newPage();
    const answer = await opened.goto(`${other}/lab`);
    expect(answer.status() === 403, `it answered ${answer.status()} at ${opened.url()}`);
    await opened.close();
  });
}

await finish();
