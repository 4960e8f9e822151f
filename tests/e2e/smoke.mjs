// What the README's first page promises: log in, run a batch job and read its output, work in JupyterLab, stop it.
import { expect, finish, logIn, openLab, page, portal, runCell, shot, SLOW, step, stopSession } from "./browser.mjs";
import { launchLab } from "./continuing.mjs";

await step("log in by the one-time link", logIn);

await step("launch a batch job", async () => {
  await page.getByTestId("template-batch").click();
  await page.getByTestId("parameter-command").fill("echo the sum is $((20 + 22))");
  await page.getByTestId("launch-submit").click();
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/, SLOW);
});

await step("it completes, and its page shows its output", async () => {
  await page.getByTestId("job-state").filter({ hasText: /completed/i }).waitFor(SLOW);
  await page.getByTestId("job-log").filter({ hasText: "the sum is 42" }).waitFor(SLOW);
  await shot(page, "job-completed");
});

await step("launch JupyterLab", async () => {
  await page.goto(portal);
  await launchLab();
});

const lab = await step("open its page", openLab);

await step("a kernel runs a cell", async () => {
  const output = await runCell(lab, "6*7");
  expect(output === "42", `the cell printed ${output}`);
  await shot(lab, "lab");
});

await step("stop the session", async () => {
  await lab.close();
  await stopSession();
});

await finish();
