// Pictures of every page in both schemes and two widths, and what axe says about accessibility:
// `node dev/shots.mjs OUT_DIR [BASE_URL] [NAME…]`.
import { mkdirSync } from "node:fs";
import { AxeBuilder } from "@axe-core/playwright";
import { chromium } from "playwright-core";

const [out = "/tmp/shots", base = "http://127.0.0.1:26001", ...only] = process.argv.slice(2);
mkdirSync(out, { recursive: true });

const RUNNING = "0190a005-4c1d-7d2e-9f00-0a1b2c3d4e5f";
const FAILED = "0190a004-4c1d-7d2e-9f00-0a1b2c3d4e5f";
const ARRAY = "0190a006-4c1d-7d2e-9f00-0a1b2c3d4e5f";
const PAGES = {
  home: ["/"],
  launch: ["/?launch=jupyterlab"],
  train: ["/?launch=python-train"],
  jobs: ["/jobs?all=true"],
  none: ["/jobs?q=zzz"],
  job: [`/jobs/${RUNNING}`],
  waiting: ["/", "Big model playground"],
  ending: ["/", "Diffusion notebooks"],
  failed: [`/jobs/${FAILED}?tab=history`],
  array: [`/jobs/${ARRAY}`],
  cluster: ["/cluster"],
  projects: ["/projects"],
  tokens: ["/tokens"],
  users: ["/users"],
  missing: ["/nowhere"],
  login: ["/login"],
};

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const said = new Set();
for (const scheme of ["light", "dark"]) {
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
    for (const [name, [path, link]] of Object.entries(PAGES)) {
      if (only.length > 0 && !only.includes(name)) continue;
      const page = await context.newPage();
      page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) said.add(`${name}: ${message.text()}`);
      });
      page.on("pageerror", (error) => said.add(`${name}: ${error.message}`));
      await page.goto(base + path);
      await page.waitForTimeout(1_300);
      if (link !== undefined) {
        await page.getByRole("link", { name: link, exact: true }).click();
        await page.waitForTimeout(800);
        for (const fold of await page.getByTestId("scheduler-record").all()) await fold.locator("summary").click();
        await page.waitForTimeout(300);
      }
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) said.add(`${name}: ${wide} px too wide at ${width}`);
      await page.screenshot({ path: `${out}/${name}-${width}-${scheme}.png`, fullPage: !["launch", "train"].includes(name) });
      const { violations } = await new AxeBuilder({ page }).analyze();
      for (const violation of violations) {
        for (const node of violation.nodes.slice(0, 3)) {
          said.add(`${name} ${scheme} ${width}: ${violation.id}: ${node.target.join(" ")} ${node.any[0]?.message ?? ""}`);
        }
      }
      await page.close();
    }
    await context.close();
  }
}
await browser.close();
for (const line of said) console.log(line);
