// Every page in both schemes and both widths: a picture of it, what axe finds, what is too wide, what the console says.
// `look.mjs PORTAL LOGIN OUT IDS [LANGUAGE [VARIANTS [KIND]]]`; with AITNE_PAGES only those pages. index.html shows all pictures.
// With VARIANTS (`1440-light,390-dark`) only those are looked at, without the stages, and only pages with a fault have a picture.
// KIND is `pages`, or `dialogs`: dialogs, menus, and pages without answers.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { browser, further, login, portal, shots } from "./browser.mjs";
import { pages, SCHEMES, stages, WIDTHS } from "./pages.mjs";

const require = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { AxeBuilder } = require("@axe-core/playwright");

const [ids = "{}", language = "en", chosen, kind] = further;
const every = WIDTHS.flatMap(([width, height]) => SCHEMES.map((scheme) => ({ name: `${width}-${scheme}`, width, height, scheme })));
const variants = every.filter(({ name }) => chosen === undefined || chosen.split(",").includes(name));
const only = process.env.AITNE_PAGES?.split(",");
const kindOf = ({ fold, answers }) => fold || answers !== undefined ? "dialogs" : "pages";
const shown = [...pages(JSON.parse(ids)), ...(chosen === undefined ? stages(JSON.parse(ids)) : [])]
  .filter((one) => (only === undefined || only.includes(one.name)) && (kind === undefined || kind === kindOf(one)));
// Half of the time a page waits for its answers.
const TABS = 2;
const SERIOUS = new Set(["serious", "critical"]);
// The browser notes each of them, also those that a page asks for in order to know: who is logged in, whether there is a profile.
const IN_ORDER = /status of (401|404)/;
/** What never comes on a bad day of that name. */
const LOST = { "no news": /\/api\/v1\/events/, "no files": /\/assets\/.*\.js$/ };
const faults = new Set();

const options = { locale: language, reducedMotion: "reduce" };
const stranger = await browser.newContext(options);
const known = await browser.newContext(options);
const opened = await known.newPage();
await opened.goto(login);
await opened.getByTestId("user-menu").waitFor({ timeout: 60_000 });
await opened.close();

const left = [...shown];
await Promise.all(Array.from({ length: TABS }, async () => {
  for (let next = left.shift(); next !== undefined; next = left.shift()) await visit(next);
}));
await browser.close();
if (chosen === undefined) writeFileSync(join(shots, "index.html"), sheet());
console.log(`${shown.length} pages, ${faults.size} faults: ${shots}`);
process.exit(faults.size === 0 ? 0 : 1);

/** Load a page once, then see it in each variant: as a window that is made narrower and a system that goes dark. */
async function visit({ name, path, prepare, fold, anybody, print, answers, changes, refused }) {
  const page = await (anybody ? stranger : known).newPage();
  let variant = variants[0];
  let pictured = chosen === undefined;
  const fault = (text) => {
    const found = `${name} ${variant.name}: ${text}`;
    if (!faults.has(found)) console.log(found);
    faults.add(found);
    pictured = true;
  };
  const picture = () => page.screenshot({ path: join(shots, `${name}-${variant.name}.png`), fullPage: fold !== true });
  page.on("console", (message) => {
    // An answer that fails is noted too, and here it was to fail.
    if (message.type() === "error" && !IN_ORDER.test(message.text()) && answers === undefined && refused !== true) fault(message.text());
  });
  page.on("pageerror", (error) => fault(String(error)));
  try {
    await page.emulateMedia({ media: print === true ? "print" : "screen" });
    await dress(page, variant);
    if (answers !== undefined) await spoil(page, answers);
    for (const [asked, fields] of Object.entries(changes ?? {})) await change(page, asked, fields);
    await page.goto(portal + path, { waitUntil: "load" });
    // The feed of events never ends, so the network is never idle: at rest is what is no longer loading.
    if (answers !== "no files") await page.waitForFunction(
      (waits) => (document.querySelector("[aria-busy=true]") !== null) === waits && (waits || document.querySelector("h1, h2") !== null),
      answers === "never",
      { timeout: 30_000 },
    );
    await prepare?.(page);
    for (variant of variants) {
      await dress(page, variant);
      await page.waitForTimeout(300);
      await judge(page, variant, fault);
      if (pictured) await picture();
    }
    // What an address has opened has nowhere to give the focus back to.
    if (kind === "dialogs" && !path.includes("launch=")) await leave(page, fault);
  } catch (error) {
    fault(String(error).split("\n")[0]);
    await picture().catch(() => undefined);
  } finally {
    await page.close();
  }
}

/** Escape closes dialogs one by one, and the focus returns to what opened them. */
async function leave(page, fault) {
  const open = () => page.getByRole("dialog").count();
  for (let count = await open(), before = Infinity; count > 0 && count < before; ) {
    await page.keyboard.press("Escape");
    before = count;
    for (let tries = 0; count === before && tries < 20; tries += 1) {
      await page.waitForTimeout(50);
      count = await open();
    }
    if (count === before) continue;
    const returned = page.waitForFunction(() => document.activeElement !== null && document.activeElement !== document.body, null, { timeout: 3_000 });
    await returned.catch(() => fault("Escape loses the focus"));
  }
}

/** What becomes of everything that a page asks for, once it knows who asks. */
async function spoil(page, answers) {
  if (answers in LOST) {
    await page.route(LOST[answers], (route) => route.abort());
    return;
  }
  await page.route(/\/api\/v1\/(?!me$|events|notifications\/settings)/, async (route) => {
    if (route.request().method() !== "GET") return route.fallback();
    if (answers === "never") return undefined;
    if (answers === "fails") {
      const problem = { type: "about:blank", title: "Unavailable", status: 503, code: "unavailable", detail: "The database does not answer. Try again in a moment." };
      return route.fulfill({ status: 503, contentType: "application/problem+json", json: problem });
    }
    // A connection that the platform closes for its age just then is no fault.
    const response = await route.fetch({ maxRetries: 2 });
    const body = await response.json().catch(() => null);
    return body === null || !Array.isArray(body.items) ? route.fulfill({ response }) : route.fulfill({ response, json: { ...body, items: [], total: 0, next_cursor: null } });
  });
}

/** Give the answer to one question other fields, those of objects in it one by one; a refusal becomes an answer. */
async function change(page, asked, fields) {
  const merged = (old, now) => (now !== null && typeof now === "object" && !Array.isArray(now) ? { ...old, ...Object.fromEntries(Object.entries(now).map(([key, value]) => [key, merged(old?.[key], value)])) } : now);
  await page.route(portal + "/api/v1" + asked, async (route) => {
    const response = await route.fetch({ maxRetries: 2 });
    await route.fulfill({ response, status: 200, json: merged(await response.json(), fields) });
  });
}

async function dress(page, { width, height, scheme }) {
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
  await page.setViewportSize({ width, height });
  // Nothing passes slowly where less motion is asked for: two frames later the page is drawn as it stays.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}

async function judge(page, { width }, fault) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) fault(`${wide} px wider than ${width}`);
  // In this page alone, as it has no frames: else each time a tab more is opened to put the findings together.
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] }).analyze();
  for (const { id, impact, nodes } of violations) {
    if (!SERIOUS.has(impact)) continue;
    for (const node of nodes.slice(0, 3)) fault(`${id} (${impact}): ${node.target.join(" ")} ${[...node.any, ...node.all][0]?.message ?? ""}`);
  }
}

/** All pictures on one page, a row for each page of the portal. */
function sheet() {
  const rows = shown.map(({ name, path }) => {
    const cells = variants.map((variant) => `<td><a href="${name}-${variant.name}.png"><img loading="lazy" src="${name}-${variant.name}.png" alt="${name}, ${variant.name}"></a></td>`);
    return `<tr><th>${name}<br><small>${path}</small></th>${cells.join("")}</tr>`;
  });
  return `<!doctype html><meta charset="utf-8"><title>The portal's pages</title>
<style>body{font:14px system-ui;background:#ddd}img{height:320px;width:auto;border:1px solid #999}th{vertical-align:top;text-align:left;max-width:160px;overflow-wrap:anywhere}</style>
<table><tr><th></th>${variants.map((variant) => `<th>${variant.name}</th>`).join("")}</tr>${rows.join("\n")}</table>\n`;
}
