// What a person waits for in the portal, measured in Chromium: `portal.mjs PORTAL LOGIN ROUNDS SWITCHES`, JSON on stdout.
// Every round is a new browser context: nothing is cached. `time to interactive` is when the page's main content stands and the
// main thread has had half a second without a long task, as Lighthouse counts it on a quiet network.
import { createRequire } from "node:module";

const require = createRequire(new URL("../frontend/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const [portal, login, rounds, switches] = process.argv.slice(2);

const browser = await chromium.launch({
  executablePath: process.env.AITNE_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const size = { viewport: { width: 1440, height: 900 } };
const first = await browser.newContext(size);
const opened = await first.newPage();
await opened.goto(login);
await opened.getByTestId("user-menu").waitFor({ timeout: 60_000 });
const storageState = await first.storageState();
await first.close();

const loads = [];
for (let round = 0; round < Number(rounds); round += 1) loads.push(await load());
const shown = await switching();
const frames = await scrolling();
await browser.close();
console.log(JSON.stringify({ loads, switches: shown, frames }));

/** The front page with nothing cached. */
async function load() {
  const context = await browser.newContext({ ...size, storageState });
  const page = await context.newPage();
  const wire = await context.newCDPSession(page);
  await wire.send("Network.enable");
  // Of each request when it was made, what came, and how many bytes its body had on the wire.
  const requests = new Map();
  wire.on("Network.requestWillBeSent", ({ requestId, timestamp }) => requests.set(requestId, { timestamp, bytes: 0 }));
  wire.on("Network.responseReceived", ({ requestId, type }) => Object.assign(requests.get(requestId) ?? {}, { type }));
  wire.on("Network.dataReceived", ({ requestId, encodedDataLength }) => {
    const request = requests.get(requestId);
    if (request !== undefined) request.bytes += encodedDataLength;
  });
  await page.addInitScript(() => {
    window.seen = { lcp: 0, shift: 0, busyUntil: 0, blocked: 0 };
    const watch = (type, use) => new PerformanceObserver((list) => list.getEntries().forEach(use)).observe({ type, buffered: true });
    watch("largest-contentful-paint", (entry) => { window.seen.lcp = entry.startTime; });
    watch("layout-shift", (entry) => { if (!entry.hadRecentInput) window.seen.shift += entry.value; });
    watch("longtask", (entry) => {
      window.seen.busyUntil = entry.startTime + entry.duration;
      window.seen.blocked += entry.duration - 50;
    });
  });
  await page.goto(portal, { waitUntil: "load" });
  await page.locator('main [data-testid^="template-"]').first().waitFor();
  const contentAt = await page.evaluate(() => performance.now());
  await page.waitForFunction(() => performance.now() - window.seen.busyUntil > 500);
  const found = await page.evaluate(() => ({
    ...window.seen,
    fcp: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  }));
  await context.close();
  const [{ timestamp: began }] = requests.values();
  const bytes = [...requests.values()]
    .filter(({ type, timestamp }) => ["Script", "Stylesheet"].includes(type) && (timestamp - began) * 1000 <= contentAt)
    .reduce((sum, request) => sum + request.bytes, 0);
  return { fcp: found.fcp, lcp: found.lcp, interactive: Math.max(contentAt, found.busyUntil), blocked: found.blocked, shift: found.shift, bytes: bytes / 1000 };
}

/** From a press on a link to the other page's heading, when its code was fetched before. */
async function switching() {
  const context = await browser.newContext({ ...size, storageState });
  const page = await context.newPage();
  await page.goto(portal);
  const links = ["/jobs", "/cluster", "/projects", "/"];
  const to = async (path) => {
    const link = page.locator(`nav a[href="${path}"]`).first();
    await link.hover();
    await page.waitForTimeout(300);
    const took = page.evaluate(
      (wanted) => new Promise((resolve) => {
        document.querySelector(`nav a[href="${wanted}"]`).addEventListener("click", () => {
          const start = performance.now();
          const old = document.querySelector("main h1");
          const look = () => {
            const heading = document.querySelector("main h1");
            if (heading !== null && heading !== old) requestAnimationFrame(() => resolve(performance.now() - start));
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        }, { once: true });
      }),
      path,
    );
    await link.click();
    return took;
  };
  for (const path of links) await to(path);
  const times = [];
  for (let round = 0; round < Number(switches); round += 1) for (const path of links) times.push(await to(path));
  await context.close();
  return times;
}

/** The table of all jobs, scrolled from end to end: how long each frame took. */
async function scrolling() {
  const context = await browser.newContext({ ...size, storageState });
  const page = await context.newPage();
  await page.goto(`${portal}/jobs?all=true`);
  await page.getByTestId("job-row").first().waitFor({ timeout: 60_000 });
  await page.waitForTimeout(500);
  const times = await page.evaluate(async () => {
    const inner = [...document.querySelectorAll("main *")].filter((each) => /auto|scroll/.test(getComputedStyle(each).overflowY) && each.scrollHeight > 2 * each.clientHeight);
    const area = inner[0] ?? document.scrollingElement;
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const found = [];
    let last = await frame();
    const begun = last;
    while (last - begun < 8_000) {
      area.scrollTop += 240;
      const now = await frame();
      found.push(now - last);
      last = now;
    }
    return found;
  });
  await context.close();
  return times;
}
