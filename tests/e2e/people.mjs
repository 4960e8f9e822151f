// What the walks through whole days share: several people at once, and pages that are looked at as people come to them.
// A walk through a day is started with the link of an administrator and COMMANDS, what is done beside the portal.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { ask, expect, further, login, newcomer, portal, shots, until } from "./browser.mjs";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { AxeBuilder } = require("@axe-core/playwright");

/** For what a scheduler does, on a machine that has other work. */
export const PATIENT = { timeout: 180_000 };
const SERIOUS = new Set(["serious", "critical"]);
const COMMANDS = JSON.parse(further[0]);
const STILL = { reducedMotion: "reduce" };

/** What one of the commands prints that the test names. */
export const command = (name, ...words) => {
  const [program, ...argv] = [...COMMANDS[name], ...words];
  return execFileSync(program, argv, { encoding: "utf8", timeout: PATIENT.timeout, stdio: ["ignore", "pipe", "pipe"] });
};

/** Look at the page that somebody has come to: a picture, and nothing serious for axe. */
export async function look(of, name) {
  // The feed of events never ends, so the network is never idle: at rest is what neither loads nor moves.
  await of.waitForFunction(
    () =>
      document.querySelector("h1") !== null &&
      document.querySelector("[aria-busy=true]") === null &&
      document.getAnimations().every((each) => each.playState !== "running" || each.effect?.getComputedTiming().endTime === Infinity),
    null,
    PATIENT,
  );
  await of.screenshot({ path: join(shots, `${name}.png`) });
  const { violations } = await new AxeBuilder({ page: of }).analyze();
  const found = violations
    .filter(({ impact }) => SERIOUS.has(impact))
    .flatMap(({ id, nodes }) => nodes.slice(0, 3).map((node) => `${id}: ${node.target.join(" ")} ${[...node.any, ...node.all][0]?.message ?? ""}`));
  expect(found.length === 0, `${name}: ${found.join("\n")}`);
}

/** The administrator whose link the walk was given, in a browser of their own. */
export async function administrator() {
  const own = await newcomer(STILL);
  await own.goto(login);
  await own.getByTestId("user-menu").waitFor(PATIENT);
  return own;
}

/** One more person, who is not logged in yet. */
export const somebody = () => newcomer(STILL);

/** A link with which `name` sets a password, from the page of accounts. */
export async function resetLink(admin, name) {
  await openUser(admin, name);
  await admin.getByTestId("user-reset").click();
  const link = admin.getByText(/^https?:\S+\/reset#/);
  await link.waitFor(PATIENT);
  return (await link.textContent()).trim();
}

/** On the page of accounts: the drawer of `name`. */
export async function openUser(admin, name) {
  await admin.goto(`${portal}/admin/users`);
  await admin.getByTestId("user-search").fill(name);
  await admin.getByRole("button", { name: `Manage ${name}`, exact: true }).click(PATIENT);
}

export async function setPassword(own, link, password) {
  await own.goto(link);
  await own.getByTestId("reset-password").fill(password);
  await own.getByTestId("reset-again").fill(password);
  await look(own, "reset");
  await own.getByTestId("reset-submit").click();
  await own.getByTestId("reset-password").waitFor({ ...PATIENT, state: "detached" });
}

/** Name and password where the form for them is. */
export async function giveName(own, name, password) {
  await own.getByTestId("login-username").fill(name, PATIENT);
  await own.getByTestId("login-password").fill(password);
  await own.getByTestId("login-submit").click();
}

export async function enter(own, name, password) {
  await own.goto(portal);
  await giveName(own, name, password);
  await own.getByTestId("template-jupyterlab").waitFor(PATIENT);
}

/** Open a job file in the composer, again and again until `selector` is there: what Slurm says of it takes time to be known. */
export const propose = (own, text, selector) =>
  until(`${selector} in the composer`, async () => {
    await own.goto(`${portal}/compose`);
    await own.locator("input[type=file]").setInputFiles({ name: "job.aitne.yml", mimeType: "text/plain", buffer: Buffer.from(text) });
    return own.locator(selector).first().waitFor({ timeout: 30_000 }).then(() => true, () => false);
  }, PATIENT);

/** Send a job file through the composer; the new job's id. */
export async function compose(own, text, name) {
  await propose(own, text, "[data-testid=launch-plan]");
  if (name !== undefined) await look(own, name);
  await own.getByTestId("compose-submit").click();
  await own.waitForURL(/\/jobs\/[0-9a-f-]{36}/, PATIENT);
  return own.url().match(/[0-9a-f-]{36}/)[0];
}

const OVER = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT", "OUT_OF_MEMORY", "NODE_FAILED", "PREEMPTED", "LOST"]);

/** Wait until a job is in one of the states; one that ended in another never gets there. */
export const reaches = (own, id, ...states) =>
  until(`${id} in ${states.join(" or ")}`, async () => {
    const { state, reason } = await ask(own, `/jobs/${id}`);
    expect(states.includes(state) || !OVER.has(state), `${id} is ${state}: ${reason}`);
    return states.includes(state);
  }, PATIENT);
