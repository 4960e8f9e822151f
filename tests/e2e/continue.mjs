// A session ends while a notebook is open in it; one press brings both back. What ends it is the walk's argument: a person
// or its time limit.
import { card, expect, finish, further, logIn, newestSession, openLab, SLOW, step, stopSession, until } from "./browser.mjs";
import { continueSession, findNotebook, keepNotebook, launchLab } from "./continuing.mjs";

const PATIENT = { timeout: 360_000 };
const reachesItsLimit = async () => {
  const { state } = await until("the time limit", async () => {
    const session = await newestSession();
    return session.ended_at !== null && session;
  }, PATIENT);
  expect(state === "TIMED_OUT", `it is ${state}`);
};
const WAYS = {
  person: { limit: "30m", ends: stopSession, says: /Stopped by/ },
  walltime: { limit: "2m", ends: reachesItsLimit, says: /time limit/ },
};
const { limit, ends, says } = WAYS[further[0]];

await step("log in", logIn);
await step(`launch JupyterLab for ${limit}`, () => launchLab(PATIENT, limit));
const lab = await step("open it", openLab);
const name = await step("work in a notebook, which is saved", () => keepNotebook(lab));
const before = await step("it ends", async () => {
  const { id } = await newestSession();
  await ends();
  await card.getByText(says).waitFor(PATIENT);
  await card.getByTestId("session-continue").waitFor(PATIENT);
  return id;
});
await step("its page says so, and leads to where it goes on", async () => {
  const dialog = lab.getByRole("dialog", { name: "This session has ended." });
  await dialog.getByRole("link", { name: "Continue" }).click({ ...SLOW, trial: true });
  const address = await dialog.getByRole("link", { name: "Continue" }).getAttribute("href");
  expect(address.endsWith(`/jobs/${before}`), address);
  await dialog.getByRole("button", { name: "Close" }).click();
  await dialog.waitFor({ ...SLOW, state: "hidden" });
  await lab.close();
});
await step("continue it with one press", () => continueSession(before, PATIENT));
await step("the notebook is open as before", () => findNotebook(name));
await step("end that too", stopSession);
await finish();
