// The placement of a job that has ended: its page, its log, the topology and a plan name the same order as the API.
// Further argument: the id of a job of four nodes or more with a rank on each, whose order is another than the given one.
import { api, expect, finish, further, logIn, page, portal, shot, SLOW, step } from "./browser.mjs";

const [id] = further;
const picture = page.getByTestId("placement-picture");
const same = (found, wanted, what) => expect(JSON.stringify(found) === JSON.stringify(wanted), `${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`);
/** The nodes by the numbers of their ranks. */
const ordered = (rows) => rows.toSorted(([, one], [, other]) => one - other).map(([node]) => node);
const pairs = (arcs) => arcs.map((arc) => arc.toSorted().join(" ")).toSorted();
const ring = (order) => pairs(order.map((node, index) => [node, order[(index + 1) % order.length]]));

/** The nodes in the picture by their ranks, and the ring as it is drawn between them. */
async function drawn() {
  const nodes = await picture.locator("[data-node]").evaluateAll((lines) => lines.map((line) => [line.dataset.node, Number(/\d+/.exec(line.querySelector("b").textContent))]));
  const arcs = await picture.locator("path[data-from]").evaluateAll((paths) => paths.map(({ dataset }) => [dataset.from, dataset.to]));
  return { order: ordered(nodes), ring: pairs(arcs) };
}

await step("log in", logIn);
const placement = await api(`/jobs/${id}/placement`);
const { given, order, crossings, leaves } = placement;

await step("the picture has the order of the API, as the ring too", async () => {
  await page.goto(`${portal}/jobs/${id}?tab=placement`);
  await picture.locator("[data-node]").first().waitFor(SLOW);
  same(await drawn(), { order, ring: ring(order) }, "the chosen order");
  await page.getByRole("radio", { name: "Chosen" }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByRole("radio", { name: "Given", checked: true }).waitFor({ ...SLOW, state: "attached" });
  same(await drawn(), { order: given, ring: ring(given) }, "the given order");
  await shot(page, "placement");
});

await step("the tables have it too, and what it costs", async () => {
  const figures = await page.getByTestId("placement-figures").getByRole("row", { name: /^Crossings/ }).getByRole("cell").allTextContents();
  same(figures.map(Number), [crossings.given, crossings.chosen, crossings.best], "the crossings");
  expect(crossings.given > crossings.chosen, `the order costs ${crossings.chosen}, the given one ${crossings.given}`);
  await page.getByTestId("placement-values").locator("summary").click();
  const ranks = page.getByRole("table", { name: "Ranks of each node" }).locator("tbody tr");
  await ranks.first().waitFor(SLOW);
  const rows = await ranks.evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  same(rows.map(([node, leaf]) => [node, leaf]), rows.map(([node]) => [node, leaves[node]]), "the leaves");
  same(ordered(rows.map((row) => [row[0], row[2]])), given, "the given order");
  same(ordered(rows.map((row) => [row[0], row[3]])), order, "the chosen order");
  const bound = await page.getByRole("table", { name: "Rank bindings" }).locator("tbody tr td:nth-child(2)").allTextContents();
  same(bound, order, "the bound ranks");
});

await step("on a phone the tab is in view, and nothing is wider than it", async () => {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForFunction(() => {
    const tab = document.querySelector("[role=tab][aria-selected=true]").getBoundingClientRect();
    return tab.left >= 0 && tab.right <= window.innerWidth - 40 && document.documentElement.scrollWidth <= document.documentElement.clientWidth;
  }, undefined, SLOW);
  await page.setViewportSize(before);
});

await step("the topology has its nodes on the same leaves", async () => {
  await page.goto(`${portal}/cluster?tab=topology`);
  await page.getByTestId("topology-values").locator("summary").click();
  const cells = await page.getByRole("table", { name: "Switches and nodes" }).locator("tbody tr").evaluateAll((all) => all.map((row) => [row.cells[0].textContent, row.cells[1].textContent]));
  const found = Object.fromEntries(cells);
  same(given.map((node) => found[node]), given.map((node) => leaves[node]), "the leaves");
});

await step("the form of a new job says what is wrong with a mesh, and the plan has the order", async () => {
  await page.goto(`${portal}/compose`);
  await page.getByTestId("compose-command-0").fill("echo $RANK");
  await page.getByTestId("compose-resources.nodes").fill(String(given.length));
  await page.getByTestId("compose-resources.memory").fill("200M");
  await page.getByTestId("compose-placement.nodes").fill(given.join(","));
  await page.getByTestId("compose-placement.mesh.tensor").fill("3");
  await page.getByTestId("compose-error-placement.mesh").filter({ hasText: "the job is not distributed" }).waitFor(SLOW);
  await page.getByTestId("compose-placement.mesh.tensor").fill("");
  const plan = page.getByTestId("plan-placement");
  await plan.getByText(order.join(", "), { exact: true }).waitFor(SLOW);
  await shot(page, "placement-plan");
});

await finish();
