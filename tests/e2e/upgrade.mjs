// A page that was open while the portal was upgraded: the parts that it has not loaded yet are gone.
import { browser, expect, logIn, page, portal, step } from "./browser.mjs";

let loads = 0;
let gone = () => false;
page.on("request", (request) => { loads += Number(request.isNavigationRequest()); });
await page.route(/\/assets\/LaunchDrawer-.*\.js$/, (route) => gone() ? route.fulfill({ status: 404 }) : route.continue());

await step("log in", logIn);

await step("a part that is gone brings the new portal, which has it", async () => {
  loads = 0;
  gone = () => loads === 1;
  await page.goto(`${portal}/?launch=jupyterlab`);
  await page.getByTestId("launch-submit").waitFor();
  expect(loads === 2, `it was loaded ${loads} times`);
});

await step("where that does not help the page says so, and stays", async () => {
  loads = 0;
  gone = () => true;
  await page.goto(`${portal}/?launch=jupyterlab`);
  await page.getByRole("alert").waitFor();
  expect(loads === 1, `it was loaded ${loads} times`);
});

// Not `finish`: what was gone is in the console.
await browser.close();
