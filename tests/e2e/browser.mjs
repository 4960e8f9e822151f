// What the walks through the portal share: a real Chromium, steps that say how long they took, a cell of a notebook.
// A walk is started with PORTAL_URL LOGIN_URL SCREENSHOT_DIR.
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { chromium } = require("playwright-core");

export const SLOW = { timeout: 60_000 };
export const [portal, login, shots, ...further] = process.argv.slice(2);

export const browser = await chromium.launch({
  executablePath: fileURLToPath(new URL("undisturbed.py", import.meta.url)),
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
const consoleErrors = [];
// The browser notes every refusal, also those in order: who is asked after logging out, and a log that was
// followed until then; a job for what it has not got yet, and a plan that says what is wrong.
const IN_ORDER = [
  [/\/api\/v1\/(me$|jobs\/[^/]+\/logs\?follow=true)/, "401"],
  [/\/api\/v1\/jobs\/[^/]+\/(profile|files|results)$/, "404"],
  [/\/api\/v1\/jobs:plan$/, "422"],
];

/** From now on the user logs out: requests that the logout overtakes are refused. */
export function expectLogout() {
  IN_ORDER.push([/\/api\/v1\//, "401"]);
}

/** A page in a browser of its own: one more person. */
export async function newcomer(options = {}) {
  const own = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  own.setDefaultTimeout(SLOW.timeout);
  const opened = await own.newPage();
  opened.on("console", (message) => {
    const asked = IN_ORDER.some(([url, status]) => url.test(message.location().url) && message.text().includes(status));
    if (message.type() === "error" && !asked) consoleErrors.push(`${message.text()} ${message.location().url}`);
  });
  opened.on("pageerror", (error) => consoleErrors.push(String(error)));
  return opened;
}

export const page = await newcomer();
export const context = page.context();

/** Do one thing that a person does; when it fails, leave pictures of all pages and end the walk. */
export async function step(name, work) {
  const started = Date.now();
  try {
    const value = await work();
    console.log(`ok   ${name} (${Date.now() - started} ms)`);
    return value;
  } catch (error) {
    for (const [index, open] of browser.contexts().flatMap((each) => each.pages()).entries()) {
      await open.screenshot({ path: join(shots, `failed-${index}.png`) }).catch(() => {});
    }
    console.log(`FAIL ${name}\n${error.stack ?? error}`);
    await browser.close();
    process.exit(1);
  }
}

export function expect(truth, message) {
  if (!truth) throw new Error(message);
}

export const shot = (of, name) => of.screenshot({ path: join(shots, `${name}.png`) });

/** The portal's API, as a page of it asks. */
export const ask = (of, path, init) =>
  of.evaluate(([p, i]) => fetch(p, i).then((answer) => answer.json()), [`/api/v1${path}`, init]);
export const api = (path, init) => ask(page, path, init);

export async function logIn() {
  await page.goto(login);
  await page.getByTestId("template-jupyterlab").waitFor(SLOW);
  expect(!page.url().includes("link="), "the secret stays in the address bar");
}

/** Ask again and again until there is an answer; `waitForFunction` takes any promise for one. */
export async function until(what, read, { timeout } = SLOW) {
  const deadline = Date.now() + timeout;
  do {
    const found = await read();
    if (found) return found;
    await page.waitForTimeout(200);
  } while (Date.now() < deadline);
  throw new Error(`it did not come in ${timeout} ms: ${what}`);
}

export const newestSession = async () => (await api("/sessions?limit=1")).items[0];

export const card = page.getByTestId("session-card").first();

/** Open the first session in a tab of its own, at JupyterLab's launcher. */
export async function openLab() {
  const [opened] = await Promise.all([
    context.waitForEvent("page"),
    card.getByTestId("session-open").click(),
  ]);
  await opened.waitForURL(/\/user\/.*\/lab/, SLOW);
  // A home that was there before may hold what was open the last time.
  await opened.goto(new URL("?reset", opened.url()).href);
  await opened.locator(".jp-LauncherCard").first().waitFor(SLOW);
  return opened;
}

const RESULT = ".jp-OutputArea-executeResult .jp-OutputArea-output";

/** Type one line into a new notebook and run it; the text of the first output that `selector` finds, else of its result. */
export async function runCell(lab, code, selector = RESULT) {
  await lab.locator('.jp-LauncherCard[data-category="Notebook"]').first().click();
  await lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first().waitFor(SLOW);
  await lab
    .locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    .first()
    .waitFor({ ...SLOW, state: "attached" });
  await lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first().click();
  await lab.keyboard.insertText(code);
  const output = lab.locator(selector).first();
  // JupyterLab drops what is run while it still connects to the kernel; a person presses again.
  for (let press = 0; press < 6 && (await output.count()) === 0; press += 1) {
    await lab.keyboard.press("Control+Enter");
    await output.waitFor({ timeout: 10_000 }).catch(() => {});
  }
  return (await output.textContent()).trim();
}

/** Stop the first session where its card is, and wait for its end. */
export async function stopSession() {
  await card.getByTestId("session-stop").click();
  await page.getByTestId("confirm-yes").click();
  await until("the end of the session", async () => (await newestSession()).state === "CANCELLED");
}

/** On a job's page: wait until `line 1`, `line 2`, … have come in, and then more of them. */
export async function watchLog() {
  const log = page.getByTestId("job-log");
  const last = async () => {
    const numbers = [...(await log.textContent()).matchAll(/line (\d+)/g)].map((m) => Number(m[1]));
    return Math.max(0, ...numbers);
  };
  // A job may start late, so each wait has its own bound.
  const first = await until("a line of the log", last);
  await until("more lines of the log", async () => (await last()) > first);
}

/** Cancel the job whose page this is. */
export async function cancelJob() {
  await page.getByTestId("job-cancel").click();
  await page.getByTestId("confirm-yes").click();
  await page
    .getByTestId("job-state")
    .filter({ hasText: /cancelled/i })
    .first()
    .waitFor(SLOW);
}

/** The walk's last step. */
export async function finish() {
  await step("nothing went wrong in the portal's console", async () => {
    expect(consoleErrors.length === 0, consoleErrors.join("\n"));
  });
  await browser.close();
}
