// A researcher's day: a password, a session that is continued, a sweep and its best run, two runs side by side, a shell in a
// running job, many jobs cancelled at once, and what the bell says of one that failed.
import { ask, card, expect, finish, newestSession, openLab, page, portal, SLOW, step, stopSession, until } from "./browser.mjs";
import { continueSession, findNotebook, keepNotebook, launchLab } from "./continuing.mjs";
import { administrator, compose, enter, look, PATIENT, reaches, resetLink, setPassword } from "./people.mjs";

const PASSWORD = "a short sentence of hers";
const SWEEP = `type: job
name: days-sweep
commands:
  - echo "{\\"accuracy\\":" "0.$AITNE_PARAM_LEVEL$AITNE_PARAM_DEPTH}" > "$AITNE_METRICS/metrics.json"
sweep:
  method: grid
  parameters:
    level: [3, 7]
    depth: [2, 4]
  metric: accuracy
  goal: max
resources: {cpu: 1, memory: 100M}
max_duration: 5m
`;
const LONG = `type: job
name: days-long
commands:
  - echo the work has begun; sleep 900
resources: {cpu: 1, memory: 100M}
max_duration: 20m
`;
const FAILS = `type: job
name: days-failure
commands:
  - echo no such data; exit 3
resources: {cpu: 1, memory: 100M}
max_duration: 5m
`;

const GREEDY = `
name: days-memory
commands:
  - "echo 'Traceback (most recent call last):'; echo MemoryError; exit 1"
resources: {cpu: 1, memory: 100M}
max_duration: 5m
`;

await step("an administrator lets her set a password", async () => {
  const admin = await administrator();
  const link = await resetLink(admin, "alice");
  await look(admin, "admin-user");
  await admin.context().close();
  await setPassword(page, link, PASSWORD);
});
await step("she logs in by name and password", async () => {
  await page.goto(portal);
  await page.getByTestId("login-username").waitFor(SLOW);
  await look(page, "login");
  await enter(page, "alice", PASSWORD);
  await look(page, "home");
});

await step("JupyterLab in two presses", async () => {
  await launchLab(PATIENT);
  await look(page, "session-ready");
});
const lab = await step("she opens it", openLab);
const notebook = await step("works in a notebook", () => keepNotebook(lab));
await lab.close();
const before = await step("the session ends", async () => {
  const { id } = await newestSession();
  await stopSession();
  await card.getByTestId("session-continue").waitFor(SLOW);
  await look(page, "session-ended");
  return id;
});
await step("one press continues it", () => continueSession(before, PATIENT));
await step("the notebook is open again", () => findNotebook(notebook));
await step("she is done with it", stopSession);

const sweep = await step("she sends a sweep", () => compose(page, SWEEP, "compose"));
await step("its table and its plot show the best setting", async () => {
  await reaches(page, sweep, "COMPLETED");
  await page.goto(`${portal}/jobs/${sweep}`);
  await page.getByTestId("sweep-best").filter({ hasText: /^Best: .*0\.74/ }).waitFor(PATIENT);
  const values = await page.getByTestId("sweep-table").locator("tbody tr td:nth-last-child(2)").allTextContents();
  expect(values.join() === "0.74,0.72,0.34,0.32", `the table says ${values}`);
  await page.getByRole("img", { name: "Parallel coordinates of 4 tasks by accuracy" }).waitFor(SLOW);
  await look(page, "sweep");
});
await step("she compares the worst of its runs with the best", async () => {
  await page.getByTestId("sweep-compare").last().click();
  await page.getByTestId("compare").waitFor(SLOW);
  const row = (name) => page.getByTestId("compare").getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
  const cells = async (name) => (await row(name).getByRole("cell").allTextContents()).join();
  expect((await cells("accuracy")) === "0.74,0.32", `the accuracies are ${await cells("accuracy")}`);
  expect((await cells("level")) === "7,3" && (await cells("depth")) === "4,2", "the settings are others");
  await look(page, "compare");
});

const long = await step("she sends a long job", () => compose(page, LONG));
await step("a shell in it, in the browser", async () => {
  await reaches(page, long, "RUNNING");
  await page.getByTestId("job-terminal").click(SLOW);
  await page.getByTestId("terminal-status").filter({ hasText: /^On n\d|^In the job/ }).waitFor(PATIENT);
  const screen = page.getByTestId("terminal");
  await screen.click();
  await page.keyboard.insertText("echo $((6*7))-$(id -un)");
  await page.keyboard.press("Enter");
  await screen.locator(".xterm-rows", { hasText: "42-alice" }).waitFor(SLOW);
  await look(page, "terminal");
});

await step("twice more, from what stands in the composer", async () => {
  for (let time = 0; time < 2; time += 1) {
    await page.goto(`${portal}/jobs/${long}`);
    await page.getByTestId("job-compose").click(SLOW);
    await page.getByTestId("launch-plan").waitFor(PATIENT);
    await page.getByTestId("compose-submit").click();
    await page.waitForURL((url) => /\/jobs\/[0-9a-f-]{36}/.test(url.href) && !url.href.includes(long), PATIENT);
  }
  await look(page, "job-again");
});
await step("she finds the three and cancels them at once", async () => {
  await page.goto(`${portal}/jobs`);
  await page.getByTestId("jobs-search").fill("days-long");
  await until("three rows", async () => (await page.getByTestId("job-row").count()) === 3);
  await until("all three alive", async () => (await page.locator("[data-testid=job-row]:is([data-state=QUEUED], [data-state=RUNNING])").count()) === 3, PATIENT);
  await page.getByRole("checkbox", { name: "Select all shown" }).click();
  await page.getByTestId("jobs-cancel").click();
  await page.getByTestId("confirm-yes").click();
  await until("three cancelled rows", async () => (await page.locator("[data-testid=job-row][data-state=CANCELLED]").count()) === 3, PATIENT);
  await look(page, "jobs-cancelled");
});

await step("the bell tells of a job that failed, and leads to why", async () => {
  const failure = await compose(page, FAILS);
  await reaches(page, failure, "FAILED");
  const bell = page.getByTestId("bell");
  const told = page.getByTestId("notification").filter({ hasText: "days-failure failed" }).first();
  await until("the notification", async () => {
    // A notice over the bell stays for as long as the pointer rests on it.
    await page.mouse.move(0, 0);
    await bell.click();
    return told.waitFor({ timeout: 10_000 }).then(() => true, () => bell.click().then(() => false));
  }, PATIENT);
  expect(/exit code 3\..*no such data/s.test(await told.textContent()), `it says ${await told.textContent()}`);
  await look(page, "bell");
  await told.getByRole("link").click();
  await page.waitForURL((url) => url.href.includes(failure), SLOW);
  await page.getByTestId("stage-detail").filter({ hasText: /exit code 3/ }).waitFor(SLOW);
  await page.getByTestId("job-log").filter({ hasText: "no such data" }).waitFor(PATIENT);
  await look(page, "job-failed");
});
await step("she runs it again, as it was", async () => {
  const failed = page.url();
  await page.getByTestId("job-resubmit").click();
  await page.getByTestId("rerun-yes").click(SLOW);
  await page.waitForURL((url) => /\/jobs\/[0-9a-f-]{36}$/.test(url.pathname) && url.href !== failed, PATIENT);
  await reaches(page, page.url().match(/[0-9a-f-]{36}/)[0], "FAILED");
});
await step("one press runs a job that had too little memory again with more", async () => {
  const greedy = await compose(page, GREEDY);
  await reaches(page, greedy, "FAILED");
  await page.goto(`${portal}/jobs/${greedy}`);
  await page.getByTestId("remedy-resubmit").filter({ hasText: "200 MiB" }).click(SLOW);
  await page.waitForURL((url) => /\/jobs\/[0-9a-f-]{36}$/.test(url.pathname) && !url.href.includes(greedy), PATIENT);
  const again = page.url().match(/[0-9a-f-]{36}/)[0];
  const { resources } = await ask(page, `/jobs/${again}`);
  expect(resources.memory_bytes === 200 * 1024 ** 2, `it has ${resources.memory_bytes} bytes`);
  await reaches(page, again, "FAILED");
});

await finish();
