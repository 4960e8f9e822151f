// Images and datasets as a person uses them: look at what is offered, work with JupyterLab in an image on a
// dataset that cannot be changed, run a batch job in another, and read on its page what it ran in.
// Further argument: the dataset's NAME:VERSION.
import {
  cancelJob, card, expect, finish, further, logIn, openLab, page, runCell, shot, SLOW, step, stopSession, watchLog,
} from "./browser.mjs";

const [dataset] = further;
const [name, version] = dataset.split(":");
const RESTS = `import errno, pathlib
try: pathlib.Path("/datasets/${name}/new").touch()
except OSError as error: print(errno.errorcode[error.errno])`;

/** Choose from a list that opens, as it is written there. */
async function choose(field, option) {
  await page.getByTestId(field).click();
  await page.getByRole("option").filter({ hasText: option }).first().click();
}

async function launchWith(image, fill) {
  await page.getByTestId("launch-submit").waitFor(SLOW);
  // A second try of this test finds the values of the first.
  const defaults = page.getByTestId("launch-defaults");
  if (await defaults.isVisible()) await defaults.click();
  await fill?.();
  await choose("launch-image", image);
  await choose("launch-datasets", `${name} ${version}`);
  await page.getByText(`/datasets/${name}`, { exact: true }).waitFor(SLOW);
  const plan = page.getByTestId("launch-plan");
  await plan.filter({ hasText: new RegExp(`in ${image}:[0-9.]+ \\(Apptainer\\)`) }).waitFor(SLOW);
  await plan.getByTestId("plan-limit").first().waitFor(SLOW);
  await shot(page, `launch-${image}`);
  await page.getByTestId("launch-submit").click();
}

await step("log in", logIn);

await step("see which images are offered", async () => {
  await page.getByTestId("nav-data").click();
  await page.getByRole("menuitem", { name: "Images" }).click();
  for (const image of ["base", "jupyter"]) {
    const row = page.locator(`[data-testid="image-row"][data-image^="${image}:"]`);
    await row.filter({ hasText: "Available" }).filter({ hasText: "Apptainer" }).waitFor(SLOW);
  }
  await shot(page, "images");
});

const digest = await step("look at one, and search in its software", async () => {
  await page.locator('[data-image^="jupyter:"] a').click();
  await page.getByTestId("bill-search").fill("jupyterlab");
  await page.getByTestId("package-row").filter({ hasText: /^jupyterlab\d/ }).filter({ hasText: "PyPI" }).waitFor(SLOW);
  await shot(page, "image");
  await page.goBack();
  await page.locator('[data-image^="base:"] a').click();
  await page.getByTestId("package-row").filter({ hasText: "coreutils" }).first().waitFor(SLOW);
  const content = await page.getByTestId("image-artifact").filter({ hasText: "Apptainer" }).textContent();
  return /sha256:[0-9a-f]+/.exec(content)[0];
});

await step("find the dataset", async () => {
  await page.getByTestId("nav-data").click();
  await page.getByRole("menuitem", { name: "Datasets" }).click();
  await page.locator(`[data-testid="dataset-row"][data-dataset="${dataset}"] a`).click();
  await page.getByText(`datasets: [${dataset}]`).waitFor(SLOW);
  await shot(page, "dataset");
});

await step("launch JupyterLab in an image, with the dataset", async () => {
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await page.getByTestId("template-jupyterlab").click();
  await launchWith("jupyter");
  await card.waitFor(SLOW);
});

await step("watch it become ready", () => card.getByTestId("session-open").waitFor(SLOW));

const lab = await step("open it", openLab);

await step("the kernel cannot write into the dataset: EROFS", async () => {
  const said = await runCell(lab, RESTS, '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stdout"]');
  expect(said === "EROFS", `the cell printed ${said}`);
  await shot(lab, "lab-in-image");
});

await step("stop the session", async () => {
  await lab.close();
  await stopSession();
});

await step("launch a batch job in the other image", async () => {
  await page.getByTestId("template-batch").click();
  // It tries each time, because only the last lines of a log are in the document.
  const command = `for i in $(seq 1 36000); do touch "$AITNE_DATASETS/${name}/new"; echo line $i; sleep 0.1; done`;
  await launchWith("base", () => page.getByTestId("parameter-command").fill(command));
  await page.waitForURL(/\/jobs\/[0-9a-f-]{36}/, SLOW);
});

await step("its log moves", async () => {
  await watchLog();
  expect((await page.getByTestId("job-log").textContent()).includes("Read-only file system"), "it wrote into the dataset");
});

await step("its page says what it runs in, and what it reads", async () => {
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("link", { name: /^base:[0-9.]+$/ }).waitFor(SLOW);
  await details.getByRole("link", { name: dataset, exact: true }).waitFor(SLOW);
  const said = await details.textContent();
  expect(said.includes(digest), `the digest is not ${digest}: ${said}`);
  expect(said.includes("RuntimeApptainer"), `the runtime is missing: ${said}`);
  await shot(page, "job-in-image");
});

await step("cancel it", cancelJob);

await finish();
