// A training on two nodes as a person starts and watches it: what the plan says of its ranks, what they say to each
// other while it runs, and what it came to.
// Further arguments: the folder of train.py, and the environment that has torch.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, finish, further, logIn, page, shot, SLOW, step } from "./browser.mjs";

const [folder, venv] = further;
// Two ranks import PyTorch first, which takes a busy machine a minute.
const STARTING = { timeout: 180_000 };
const parameter = (name) => page.getByTestId(`parameter-${name}`);
const profile = page.getByTestId("profile");
const steps = async () => Number(/([\d,]+) steps? of/.exec(await profile.textContent())?.[1].replaceAll(",", "") ?? 0);

await step("log in", logIn);

await step("fill in the form", async () => {
  await page.getByTestId("template-distributed-train").click();
  await parameter("script").fill("train.py");
  await parameter("folder").fill(folder);
  await parameter("ranks_per_node").fill("1");
  await page.getByTestId("resource-nodes").fill("2");
  await page.getByTestId("launch-python-kind").getByText("venv").click();
  await page.getByTestId("launch-python").fill(venv);
});

await step("read the plan", async () => {
  await page.getByTestId("launch-plan").filter({ hasText: "2 ranks: 1 on each of 2 nodes" }).waitFor(SLOW);
  await shot(page, "distributed-plan");
});

await step("launch it", async () => {
  await page.getByTestId("launch-submit").click();
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/, SLOW);
});

await step("see what the ranks say to each other", async () => {
  await page.getByRole("tab", { name: "Communication" }).click();
  await profile.getByRole("table", { name: "By message size" }).getByRole("row", { name: /^allreduce/ }).first().waitFor(STARTING);
  await profile.getByRole("list", { name: "By rank" }).getByText("node 1").waitFor(SLOW);
});

await step("see it move while the job runs", async () => {
  const first = await steps();
  const deadline = Date.now() + SLOW.timeout;
  while ((await steps()) <= first && Date.now() < deadline) await page.waitForTimeout(100);
  expect((await steps()) > first, `it stood still at ${first} steps`);
  expect(/running/i.test(await page.getByTestId("job-state").first().textContent()), "the job does not run any more");
  const stage = await page.locator('[aria-label="Stages"] [aria-current="step"]').getAttribute("data-testid");
  expect(stage === "stage-running", `the stages are at ${stage}`);
  await shot(page, "distributed");
});

await step("narrow the window: nothing is wider than it", async () => {
  const before = page.viewportSize();
  for (const size of [{ width: 390, height: 844 }, before]) {
    await page.setViewportSize(size);
    await page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth, undefined, SLOW);
  }
});

await step("see it end", async () => {
  writeFileSync(join(folder, "enough"), "");
  await page.getByTestId("job-state").filter({ hasText: /completed/i }).first().waitFor(SLOW);
  await profile.getByText(/ steps? of .* on 2 ranks$/).waitFor(SLOW);
});

await step("read in its log how well it learned", async () => {
  await page.getByRole("tab", { name: "Log" }).click();
  const log = page.getByTestId("job-log");
  await log.getByText(/test accuracy/).first().waitFor(SLOW);
  const accuracy = Number(/test accuracy ([0-9.]+) on 2 ranks/.exec(await log.textContent())?.[1]);
  expect(accuracy > 0.9, `the accuracy is ${accuracy}`);
  await shot(page, "distributed-log");
});

await finish();
