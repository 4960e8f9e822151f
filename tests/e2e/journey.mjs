// The portal as a person uses it: log in, launch, watch the stages, open, compute, stop; then a batch job.
import {
  api, browser, cancelJob, card, context, expect, expectLogout, finish, logIn, login, newestSession, openLab, page, portal,
  runCell, shot, SLOW, step, stopSession, until, watchLog,
} from "./browser.mjs";

await step("log in by the one-time link", logIn);

await step("the link does not work twice", async () => {
  const other = await (await browser.newContext()).newPage();
  await other.goto(login);
  await other.getByTestId("login-username").waitFor(SLOW);
  await other.context().close();
});

await step("launch JupyterLab in two clicks", async () => {
  await page.getByTestId("template-jupyterlab").click();
  await page.getByTestId("launch-submit").click();
  await card.waitFor(SLOW);
});

await step("watch the stages until it is ready", async () => {
  await card.getByTestId("stage-submitted").waitFor(SLOW);
  await card.getByTestId("session-open").waitFor(SLOW);
  await shot(page, "session-ready");
});

const lab = await step("open it, logged in by the portal", openLab);

await step("see in its bar how long it lasts, and extend it", async () => {
  const bar = lab.getByRole("group", { name: "Session", exact: true });
  await bar.getByText(/left$/).waitFor(SLOW);
  const { id, expires_at: before } = await newestSession();
  expect((await bar.getByRole("link").getAttribute("href")) === `${portal}/jobs/${id}`, "the bar leads elsewhere");
  await bar.getByRole("button", { name: "Extend by 1 h" }).click();
  await until("a later end", async () => (await newestSession()).expires_at > before);
});

await step("run a cell: 1+1 is 2", async () => {
  const said = await runCell(lab, "1+1");
  expect(said === "2", "the cell did not give 2");
  expect(await lab.getByText("official Jupyter news").isHidden(), "Lab asks about news");
  await shot(lab, "lab");
});

await step("a script in the Lab page cannot act on the portal's API", async () => {
  const body = JSON.stringify({ type: "job", name: "stolen", commands: ["true"] });
  const tried = await lab.evaluate(
    async ([origin, content]) => {
      const attempt = async (url, init) => {
        try {
          const answer = await fetch(url, { method: "POST", body: content, ...init });
          return answer.type === "opaque" ? "opaque" : answer.status;
        } catch (error) {
          return String(error);
        }
      };
      const json = { "Content-Type": "application/json" };
      const readable = await fetch(`${origin}/api/v1/me`, { credentials: "include" })
        .then((answer) => answer.text(), (error) => String(error));
      return {
        cors: await attempt(`${origin}/api/v1/jobs`, { credentials: "include", headers: json }),
        simple: await attempt(`${origin}/api/v1/jobs`, { credentials: "include", mode: "no-cors" }),
        viaProxy: await attempt("/api/v1/jobs", { headers: json }),
        readable,
        cookies: document.cookie,
      };
    },
    [portal, body],
  );
  expect(typeof tried.cors === "string" || tried.cors >= 400, `cross-origin: ${tried.cors}`);
  expect(tried.viaProxy === 404 || tried.viaProxy === 405 || tried.viaProxy === 403,
    `the sessions' proxy answered ${tried.viaProxy}`);
  expect(!tried.readable.includes("csrf_token"), "the page could read who is logged in");
  expect(!tried.cookies.includes("aitne_"), "the page could read the portal's cookie");
  expect((await api("/jobs?q=stolen")).total === 0, "a job was made from the Lab page");
});

await step("stop the session", async () => {
  await lab.close();
  await stopSession();
});

// Longer than this walk takes on any machine: the job is cancelled.
const COMMAND = "for i in $(seq 1 36000); do echo line $i; sleep 0.1; done";
const command = page.getByTestId("parameter-command");

await step("save a preset, and pin its template", async () => {
  await page.goto(portal);
  await page.getByTestId("template-batch").click();
  await command.fill(COMMAND);
  await page.getByTestId("launch-save").click();
  await page.getByTestId("preset-name").fill("Counting");
  await page.getByTestId("preset-save").click();
  await page.getByTestId("preset").waitFor({ ...SLOW, state: "attached" });
  await page.reload();
  await page.getByTestId("template-pin-batch").waitFor(SLOW);
  await command.waitFor(SLOW);
  await page.getByRole("button", { name: "Close" }).last().click();
  await command.waitFor({ ...SLOW, state: "detached" });
  const pin = page.getByTestId("template-pin-batch");
  if ((await pin.getAttribute("aria-pressed")) !== "true") await pin.click();
  await page.locator('[data-testid^="template-"]').first().and(page.getByTestId("template-batch")).waitFor(SLOW);
  await shot(page, "home");
});

await step("launch a batch job by the preset", async () => {
  await page.getByTestId("preset").filter({ hasText: "Counting" }).click();
  await page.getByTestId("launch-filled").getByText("Counting").waitFor(SLOW);
  expect((await command.inputValue()) === COMMAND, "the preset lost its command");
  const remembered = page.waitForResponse((answer) => answer.url().endsWith("/me/preferences/last_launch") && answer.request().method() === "PUT");
  await page.getByTestId("launch-submit").click();
  await remembered;
});

await step("its log moves", async () => {
  if (!/\/jobs\/[0-9a-f-]{36}/.test(page.url())) {
    await page.goto(`${portal}/jobs`);
    await page.getByTestId("job-row").first().click();
  }
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/, SLOW);
  await watchLog();
  await shot(page, "job-page");
});

await step("cancel it", cancelJob);

await step("find the last values in the form, and the template's own", async () => {
  await page.goto(`${portal}/?launch=batch`);
  await page.getByTestId("launch-filled").waitFor(SLOW);
  expect((await command.inputValue()) === COMMAND, "the last launch is forgotten");
  await page.getByTestId("launch-defaults").click();
  expect((await command.inputValue()) === "", "the defaults are others");
  await page.goto(portal);
});

await step("log out, of the sessions too", async () => {
  await page.getByTestId("user-menu").click();
  expectLogout();
  await page.getByTestId("logout").click();
  await page.getByTestId("login-username").waitFor(SLOW);
  const left = (await context.cookies()).map((cookie) => cookie.name);
  // That a browser is known logs nobody in; it outlives the login, for that is what it is for.
  const logins = left.filter((name) => (name.startsWith("aitne_") && !name.endsWith("_browser")) || name === "jupyterhub-hub-login");
  expect(logins.length === 0, `still logged in by ${logins.join(", ")}`);
});

await finish();
