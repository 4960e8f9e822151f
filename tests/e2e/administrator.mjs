// An administrator at two in the morning: what is broken, a node that is drained and resumed, everybody told, a maintenance that
// holds new work only, who did what, and a look through somebody else's eyes.
import { ask, expect, finish, logIn, newcomer, page, portal, SLOW, step, until } from "./browser.mjs";
import { command, compose, enter, look, openUser, PATIENT, reaches, resetLink, setPassword } from "./people.mjs";

const PASSWORD = "a short sentence of hers";
const NODE = "n4";
const REASON = "fan 3 is loud";
const NEWS = "The storage is slow tonight";
const WHY = "Firmware of the switches";
const job = (name, command) => `type: job
name: ${name}
commands:
  - ${command}
resources: {cpu: 1, memory: 100M}
max_duration: 20m
`;

await step("log in", logIn);
const alice = await newcomer({ reducedMotion: "reduce" });
const running = await step("alice works", async () => {
  await setPassword(alice, await resetLink(page, "alice"), PASSWORD);
  await enter(alice, "alice", PASSWORD);
  const id = await compose(alice, job("days-goes-on", "sleep 900"));
  await reaches(alice, id, "RUNNING");
  return id;
});
await step("what is broken", async () => {
  await page.goto(`${portal}/admin`);
  await page.getByTestId("admin-verdict").waitFor(SLOW);
  await look(page, "admin");
});

const node = page.getByRole("row").filter({ hasText: NODE });
const slurmSays = () => command("sinfo", "-h", "-n", NODE, "-o", "%T|%E");
await step("a node is drained", async () => {
  await page.goto(`${portal}/admin/nodes`);
  await page.getByRole("button", { name: `Drain ${NODE}`, exact: true }).click(PATIENT);
  await page.getByTestId("drain-reason").fill(REASON);
  await look(page, "drain");
  await page.getByTestId("drain-yes").click();
  await node.filter({ hasText: REASON }).waitFor(PATIENT);
  await until("the drained node in sinfo", () => /^drain/.test(slurmSays()) && slurmSays().includes(REASON), PATIENT);
  await look(page, "admin-nodes");
});
await step("its history says who and why", async () => {
  await page.getByRole("link", { name: NODE, exact: true }).click();
  const history = page.getByRole("region", { name: "History" });
  await history.getByText(/^Drained by root/).first().waitFor(PATIENT);
  await page.getByTestId("node-reason").getByText(REASON).waitFor(SLOW);
  await look(page, "node");
  await page.goBack();
});
await step("it is resumed", async () => {
  await page.getByRole("button", { name: `Resume ${NODE}`, exact: true }).click();
  await until("the open node in sinfo", () => /^(idle|mix|alloc)/.test(slurmSays()), PATIENT);
  await page.getByRole("button", { name: `Drain ${NODE}`, exact: true }).waitFor(PATIENT);
});

await step("everybody is told", async () => {
  await alice.goto(portal);
  await alice.getByTestId("template-jupyterlab").waitFor(SLOW);
  await page.goto(`${portal}/admin/announcements`);
  await page.getByTestId("announcement-new").click(SLOW);
  await page.getByTestId("announcement-text").fill(NEWS);
  await look(page, "announcement");
  await page.getByTestId("announcement-save").click();
  await page.getByTestId("announcement-row").filter({ hasText: NEWS }).waitFor(SLOW);
  // Alice's page is open, and she does nothing.
  await alice.getByTestId("announcement").filter({ hasText: NEWS }).waitFor(PATIENT);
  await look(alice, "announced");
});

await step("the maintenance begins", async () => {
  await page.getByTestId("maintenance-set").click();
  await page.getByTestId("maintenance-message").fill(WHY);
  await look(page, "maintenance-plan");
  await page.getByTestId("maintenance-save").click();
  await page.getByTestId("maintenance-end").waitFor(SLOW);
  await alice.getByTestId("maintenance-banner").filter({ hasText: WHY }).waitFor(PATIENT);
  await look(page, "maintenance");
});
const held = await step("what is new is held, and what runs goes on", async () => {
  const id = await compose(alice, job("days-waits", "echo at last"));
  await until("why it waits", async () => /maintenance/i.test(await alice.getByRole("main").textContent()), PATIENT);
  await look(alice, "held");
  expect((await ask(alice, `/jobs/${id}`)).state === "PENDING_SUBMIT", "it was given to Slurm");
  expect((await ask(alice, `/jobs/${running}`)).state === "RUNNING", "what ran does not run any more");
  return id;
});
await step("the maintenance ends, and what was held runs", async () => {
  await page.getByTestId("maintenance-end").click();
  await page.getByTestId("confirm-yes").click();
  await reaches(alice, held, "COMPLETED");
  await alice.getByTestId("maintenance-banner").waitFor({ ...PATIENT, state: "detached" });
  expect((await ask(alice, `/jobs/${running}`)).state === "RUNNING", "what ran does not run any more");
});

await step("a look through alice's eyes", async () => {
  await openUser(page, "alice");
  await page.getByTestId("user-impersonate").click();
  await page.getByTestId("confirm-yes").click();
  await page.getByTestId("impersonation").waitFor(PATIENT);
  await look(page, "as-alice");
  // What would change something is disabled, and says why.
  for (const [path, button] of [["/account/profile", "profile-save"], ["/account/secrets", "secret-new"], ["/account/notifications", "save-notifications"], ["/projects", "project-new"], ["/jobs", "jobs-compose"]]) {
    await page.goto(`${portal}${path}`);
    await page.getByTestId(button).waitFor(SLOW);
    expect(await page.getByTestId(button).isDisabled(), `${button} can be pressed by an impersonator`);
  }
  await page.getByText(/while you impersonate alice/).first().waitFor({ state: "attached" });
  await page.goto(`${portal}/jobs/${running}`);
  await page.getByTestId("job-cancel").click(SLOW);
  await page.getByTestId("confirm-yes").click();
  await reaches(page, running, "CANCELLED");
  await page.getByTestId("end-impersonation").click();
  await page.getByTestId("user-search").waitFor(PATIENT);
  expect((await page.getByTestId("impersonation").count()) === 0, "the banner stays");
});

await step("the audit log knows all of it", async () => {
  await page.goto(`${portal}/admin/audit`);
  await page.getByTestId("audit-row").first().waitFor(SLOW);
  await look(page, "audit");
  const row = (text) => page.getByTestId("audit-row").filter({ hasText: text }).first();
  await row(/root as alice/).waitFor(SLOW);
  await page.getByTestId("audit-action").click();
  await page.getByRole("option", { name: "Drain node", exact: true }).click();
  await until("the drained node alone", async () => {
    const rows = await page.getByTestId("audit-row").allTextContents();
    return rows.length > 0 && rows.every((text) => text.includes("Drain node") && text.includes(NODE) && text.includes("root"));
  });
  await page.getByTestId("audit-verify").click();
  await page.getByText(/^[\d\s,.]+ entries verified, no changes/).waitFor(PATIENT);
  await look(page, "audit-verified");
});
await step("the settings, and where they are from", async () => {
  await page.goto(`${portal}/admin/settings`);
  await page.getByTestId("setting-row").filter({ hasText: "slurm.dev_cluster" }).waitFor(SLOW);
  await look(page, "admin-settings");
});
await step("the announcement is taken back", async () => {
  await page.goto(`${portal}/admin/announcements`);
  await page.getByTestId("announcement-row").filter({ hasText: NEWS }).getByRole("button", { name: "Delete" }).click(SLOW);
  await page.getByTestId("confirm-yes").click();
  await alice.getByTestId("announcement").waitFor({ ...PATIENT, state: "detached" });
});

await finish();
