// The portal as a person uses it: log in, launch, watch the stages, open, compute, stop; then a batch job.
// Usage: node journey.mjs PORTAL_URL LOGIN_URL SCREENSHOT_DIR
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { chromium } = require("playwright-core");

const [portal, login, shots] = process.argv.slice(2);
const SLOW = { timeout: 60_000 };

const browser = await chromium.launch({
  executablePath: process.env.AITNE_CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
const page = await context.newPage();
const consoleErrors = [];
// The browser notes every refusal, also one that is in order: of who is asked after logging out.
page.on("console", (message) => {
  const asked = message.location().url.endsWith("/api/v1/me") && message.text().includes("401");
  if (message.type() === "error" && !asked) consoleErrors.push(`${message.text()} ${message.location().url}`);
});
page.on("pageerror", (error) => consoleErrors.push(String(error)));

async function step(name, work) {
  const started = Date.now();
  try {
    const value = await work();
    console.log(`ok   ${name} (${Date.now() - started} ms)`);
    return value;
  } catch (error) {
    for (const [index, open] of context.pages().entries()) {
      await open.screenshot({ path: join(shots, `failed-${index}.png`) }).catch(() => {});
    }
    console.log(`FAIL ${name}\n${error.stack ?? error}`);
    await browser.close();
    process.exit(1);
  }
}

function expect(truth, message) {
  if (!truth) throw new Error(message);
}

const api = (path, init) =>
  page.evaluate(([p, i]) => fetch(p, i).then((answer) => answer.json()), [`/api/v1${path}`, init]);

await step("log in by the one-time link", async () => {
  await page.goto(login);
  await page.getByTestId("template-jupyterlab").waitFor(SLOW);
  expect(!page.url().includes("link="), "the secret stays in the address bar");
});

await step("the link does not work twice", async () => {
  const other = await (await browser.newContext()).newPage();
  await other.goto(login);
  await other.getByTestId("login-username").waitFor(SLOW);
  await other.context().close();
});

const card = page.getByTestId("session-card").first();
await step("launch JupyterLab in two clicks", async () => {
  await page.getByTestId("template-jupyterlab").click();
  await page.getByTestId("launch-submit").click();
  await card.waitFor(SLOW);
});

await step("watch the stages until it is ready", async () => {
  await card.getByTestId("stage-submitted").waitFor(SLOW);
  await card.getByTestId("session-open").waitFor(SLOW);
  await page.screenshot({ path: join(shots, "session-ready.png") });
});

const lab = await step("open it, logged in by the portal", async () => {
  const [opened] = await Promise.all([
    context.waitForEvent("page"),
    card.getByTestId("session-open").click(),
  ]);
  await opened.waitForURL(/\/user\/.*\/lab/, SLOW);
  // A home that was there before may hold what was open the last time.
  await opened.goto(new URL("?reset", opened.url()).href);
  await opened.locator(".jp-LauncherCard").first().waitFor(SLOW);
  return opened;
});

await step("run a cell: 1+1 is 2", async () => {
  await lab.locator('.jp-LauncherCard[data-category="Notebook"]').first().click();
  await lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first().waitFor(SLOW);
  await lab
    .locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    .first()
    .waitFor({ ...SLOW, state: "attached" });
  await lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first().click();
  await lab.keyboard.type("1+1");
  const output = lab.locator(".jp-OutputArea-executeResult .jp-OutputArea-output").first();
  // JupyterLab drops what is run while it still connects to the kernel; a person presses again.
  for (let press = 0; press < 6 && (await output.count()) === 0; press += 1) {
    await lab.keyboard.press("Control+Enter");
    await output.waitFor({ timeout: 10_000 }).catch(() => {});
  }
  expect(await lab.getByText("official Jupyter news").isHidden(), "Lab asks about news");
  expect((await output.textContent()).trim() === "2", "the cell did not give 2");
  await lab.screenshot({ path: join(shots, "lab.png") });
});

await step("a script in the Lab page cannot act on the portal's API", async () => {
  const before = (await api("/jobs?limit=1")).total;
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
  const after = (await api("/jobs?limit=1")).total;
  expect(after === before, "a job was made from the Lab page");
});

await step("stop the session", async () => {
  await lab.close();
  await card.getByTestId("session-stop").click();
  await page.getByTestId("confirm-yes").click();
  await page.waitForFunction(
    async () => {
      const answer = await fetch("/api/v1/sessions?limit=1").then((r) => r.json());
      return answer.items[0].state === "CANCELLED";
    },
    null,
    SLOW,
  );
});

await step("launch a batch job", async () => {
  await page.goto(portal);
  await page.getByTestId("template-batch").click();
  await page
    .getByTestId("parameter-command")
    .fill("for i in $(seq 1 500); do echo line $i; sleep 0.1; done");
  await page.getByTestId("launch-submit").click();
});

await step("its log moves", async () => {
  if (!/\/jobs\/[0-9a-f-]{36}/.test(page.url())) {
    await page.goto(`${portal}/jobs`);
    await page.getByTestId("job-row").first().click();
  }
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/, SLOW);
  const log = page.getByTestId("job-log");
  const last = async () => {
    const numbers = [...(await log.textContent()).matchAll(/line (\d+)/g)].map((m) => Number(m[1]));
    return Math.max(0, ...numbers);
  };
  const deadline = Date.now() + 60_000;
  while ((await last()) < 1 && Date.now() < deadline) await page.waitForTimeout(100);
  const first = await last();
  expect(first >= 1, "no line appeared");
  while ((await last()) <= first && Date.now() < deadline) await page.waitForTimeout(100);
  expect((await last()) > first, "the log stood still");
  await page.screenshot({ path: join(shots, "job-page.png") });
});

await step("cancel it", async () => {
  await page.getByTestId("job-cancel").click();
  await page.getByTestId("confirm-yes").click();
  await page
    .getByTestId("job-state")
    .filter({ hasText: /cancelled/i })
    .first()
    .waitFor(SLOW);
});

await step("log out, of the sessions too", async () => {
  await page.getByTestId("user-menu").click();
  await page.getByTestId("logout").click();
  await page.getByTestId("login-username").waitFor(SLOW);
  const left = (await context.cookies()).map((cookie) => cookie.name);
  const logins = left.filter((name) => name.startsWith("aitne_") || name === "jupyterhub-hub-login");
  expect(logins.length === 0, `still logged in by ${logins.join(", ")}`);
});

await step("nothing went wrong in the portal's console", async () => {
  expect(consoleErrors.length === 0, consoleErrors.join("\n"));
});

await browser.close();
