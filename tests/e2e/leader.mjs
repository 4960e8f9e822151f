// A leader's month: a project that is asked for and approved, somebody who joins it by a link, limits of a member, and what the
// month's report says once she has worked in it.
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, finish, page, portal, shots, SLOW, step, until } from "./browser.mjs";
import { administrator, command, compose, enter, giveName, look, PATIENT, propose, reaches, resetLink, setPassword, somebody } from "./people.mjs";

const PASSWORD = "a short sentence of theirs";
const NAME = `days${Date.now().toString(36)}`;
const WORK = `type: job
name: days-in-a-project
project: ${NAME}
commands:
  - sleep 3
resources: {cpu: 1, memory: 100M, gpu: 1}
max_duration: 5m
`;
const TOO_MUCH = WORK.replace("gpu: 1", "gpu: 3");

const admin = await step("an administrator is there", administrator);
const alice = await somebody();
await step("bob and alice have passwords", async () => {
  await setPassword(page, await resetLink(admin, "bob"), PASSWORD);
  await setPassword(alice, await resetLink(admin, "alice"), PASSWORD);
  await enter(page, "bob", PASSWORD);
});

await step("bob asks for a project", async () => {
  await page.goto(`${portal}/projects`);
  await look(page, "projects");
  await page.getByTestId("project-new").click();
  await page.getByLabel("Name", { exact: false }).first().fill(NAME);
  await page.getByLabel("Title").fill("Days of the group");
  await page.getByLabel("Reason").fill("A grant that begins today");
  await look(page, "project-new");
  await page.getByTestId("project-create").click();
  await page.waitForURL((url) => url.pathname === `/projects/${NAME}`, SLOW);
  await look(page, "project-requested");
});
await step("the administrator approves it, and brings Slurm in line", async () => {
  await admin.goto(`${portal}/projects`);
  const request = admin.getByTestId("requests");
  await request.getByText("Days of the group").first().waitFor(PATIENT);
  await look(admin, "requests");
  await request.getByTestId("approve").first().click();
  await admin.getByLabel("GPU-hour budget").fill("500");
  await look(admin, "approve");
  await admin.getByTestId("approve-yes").click();
  await admin.getByTestId("approve-yes").waitFor({ ...SLOW, state: "detached" });
  command("aitne", "admin", "sync", "--yes");
});

const link = await step("bob leads it and makes a link", async () => {
  await page.goto(`${portal}/projects/${NAME}?tab=members`);
  await page.getByTestId("invite").click(PATIENT);
  await page.getByTestId("invite-make").click();
  const made = page.getByTestId("invite-link");
  await made.waitFor(SLOW);
  await look(page, "invite-link");
  const url = (await made.textContent()).trim();
  await page.getByTestId("invite-done").click();
  return url;
});
await step("alice opens it, logs in and joins", async () => {
  await alice.goto(link);
  await alice.getByTestId("join-login").waitFor(SLOW);
  expect(!alice.url().includes("#"), "the secret stays in the address bar");
  await look(alice, "invitation");
  await alice.getByTestId("join-login").click();
  await giveName(alice, "alice", PASSWORD);
  await alice.getByTestId("join").click(SLOW);
  await alice.waitForURL((url) => url.pathname === `/projects/${NAME}`, SLOW);
  await alice.getByRole("tab", { name: "Members" }).waitFor(SLOW);
  await look(alice, "joined");
  command("aitne", "admin", "sync", "--yes");
});
await step("nobody else can join by it", async () => {
  await admin.goto(link);
  await admin.getByText("This invitation is no longer valid", { exact: false }).waitFor(SLOW);
  await look(admin, "invitation-over");
});

const rowOf = (name) => page.getByTestId("member-row").filter({ hasText: name });
await step("bob lets her lead with him, and takes that back", async () => {
  await page.goto(`${portal}/projects/${NAME}?tab=members`);
  for (const [wish, role] of [["Change role to manager", "Manager"], ["Change role to member", "Member"]]) {
    await rowOf("alice").getByTestId("member-menu").click(PATIENT);
    await page.getByRole("menuitem", { name: wish, exact: true }).click();
    await rowOf("alice").getByRole("cell", { name: role, exact: true }).waitFor(SLOW);
  }
});
await step("bob lets her use two GPUs", async () => {
  await page.goto(`${portal}/projects/${NAME}?tab=members`);
  await rowOf("alice").getByTestId("member-menu").click(PATIENT);
  await page.getByRole("menuitem", { name: /^Own limits/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("GPUs", { exact: true }).fill("2");
  await look(page, "member-limits");
  await page.getByTestId("limits-save").click();
  await rowOf("alice").filter({ hasText: /GPUs 2/ }).waitFor(SLOW);
  await look(page, "members");
  command("aitne", "admin", "sync", "--yes");
});
await step("three are refused, with the limit", async () => {
  await propose(alice, TOO_MUCH, "text=/may use 2 at once/");
  expect(await alice.getByTestId("compose-submit").isDisabled(), "it can be sent all the same");
  await look(alice, "over-limit");
});
await step("alice works in the project", async () => {
  const job = await compose(alice, WORK);
  await reaches(alice, job, "COMPLETED");
  await look(alice, "job-in-project");
});

await step("bob sees what she used", async () => {
  const row = page.getByTestId("usage-row").filter({ hasText: "alice" });
  await until("alice in the usage", async () => {
    await page.goto(`${portal}/projects/${NAME}?tab=usage`);
    return row.waitFor({ timeout: 10_000 }).then(() => true, () => false);
  }, PATIENT);
  const [, jobs, , hours] = await row.getByRole("cell").allTextContents();
  expect(jobs === "1" && hours !== "0", `she ran ${jobs} jobs for ${hours} GPU-hours`);
  await look(page, "usage");
  await page.getByTestId("usage-month").click();
  await page.getByRole("option").nth(1).click();
  await row.waitFor({ ...SLOW, state: "detached" });
  await look(page, "usage-before");
  await page.getByTestId("usage-month").click();
  await page.getByRole("option").first().click();
  await row.waitFor(SLOW);
});
await step("and takes it along as a table", async () => {
  const [download] = await Promise.all([page.waitForEvent("download", SLOW), page.getByTestId("usage-csv").click()]);
  const text = await readFile(await download.path(), "utf8");
  expect(text.includes("alice") && text.includes(NAME), `the CSV does not have her: ${text}`);
  expect(download.suggestedFilename().endsWith(".csv"), `it is saved as ${download.suggestedFilename()}`);
});
await step("and prints the month's report", async () => {
  await page.getByTestId("usage-report").click();
  const report = page.getByTestId("report");
  await report.getByTestId("usage-row").filter({ hasText: "alice" }).waitFor(SLOW);
  expect((await report.textContent()).includes("Days of the group"), "it does not say whose report it is");
  await look(page, "report");
  await page.emulateMedia({ media: "print" });
  expect(await page.getByTestId("report-print").isHidden(), "the button is printed too");
  const paper = join(shots, "report.pdf");
  await writeFile(paper, await page.pdf({ format: "A4", printBackground: true }));
  expect((await stat(paper)).size > 5_000, "the printed report is empty");
  await page.emulateMedia({ media: "screen" });
});
await step("the front page of the project", async () => {
  await page.goto(`${portal}/projects/${NAME}`);
  await look(page, "project");
});

await finish();
