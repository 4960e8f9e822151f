// A session that ends and goes on: what the walks that continue one share.
import { card, context, expect, newestSession, page, runCell, shot, SLOW, until } from "./browser.mjs";

const TAB = ".jp-NotebookPanel";
const NAMES = ".lm-DockPanel-tabBar .lm-TabBar-tabLabel";

/** One that is over before never gets there. */
function isReady(session) {
  expect(!session.ended_at, `the session is ${session.state}: ${session.message}`);
  return session.state === "READY";
}

/** JupyterLab by two presses, or for `limit`; at its end it can be opened. */
export async function launchLab(patience = SLOW, limit = null) {
  const earlier = (await newestSession())?.id;
  await page.getByTestId("template-jupyterlab").click();
  if (limit !== null) await page.getByTestId("resource-duration").fill(limit);
  await page.getByTestId("launch-submit").click();
  const next = async () => {
    const session = await newestSession();
    return session?.id !== earlier && isReady(session);
  };
  await until("a session that is ready", next, patience);
}

/** A notebook with one cell that ran, on disk and in the workspace; its name. */
export async function keepNotebook(lab) {
  expect((await runCell(lab, "6*7")) === "42", "the cell did not run");
  const put = (where) => lab.waitForResponse((answer) => answer.request().method() === "PUT" && where.test(answer.url()), SLOW);
  // The two are written apart: who leaves after one may leave the other unsaved.
  const kept = Promise.all([put(/\/lab\/api\/workspaces\//), put(/\/api\/contents\/.*\.ipynb/)]);
  await lab.keyboard.press("Control+s");
  const rename = lab.locator(".jp-Dialog");
  await rename.waitFor({ timeout: 5_000 }).then(() => lab.keyboard.press("Enter"), () => undefined);
  await kept;
  return lab.locator(".lm-DockPanel-tabBar .lm-mod-current .lm-TabBar-tabLabel").first().textContent();
}

/** One press where the card of session `before` is; at its end the next one can be opened. */
export async function continueSession(before, patience = SLOW) {
  await card.getByTestId("session-continue").click();
  const next = async () => {
    const session = await newestSession();
    return session.continues === before && isReady(session);
  };
  await until("a session that continues it", next, patience);
}

/** The notebook `name` stands in the newest session as `keepNotebook` left it. */
export async function findNotebook(name) {
  const [again] = await Promise.all([context.waitForEvent("page"), card.getByTestId("session-open").click()]);
  await again.waitForURL(/\/user\/.*\/lab/, SLOW);
  const cell = again.locator(`${TAB} .jp-CodeCell`).first();
  await cell.locator(".jp-OutputArea-output", { hasText: "42" }).waitFor(SLOW);
  expect((await cell.textContent()).includes("6*7"), "the cell is not what it was");
  const tabs = await again.locator(NAMES).allTextContents();
  expect(tabs.includes(name), `open are ${tabs}, and ${name} is not`);
  await shot(again, "continued");
  await again.close();
}
