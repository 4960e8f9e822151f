// A notebook with ranks: attached from a cell on two nodes, trained on, interrupted, one of them killed, attached again; then
// its function and the notebook itself as batch jobs. The variables of the kernel outlast all of it.
// Further arguments: the options of `%ranks start`, and the login link of another user who is in none of the owner's projects.
import { ask, card, expect, finish, logIn, newestSession, newcomer, openLab, page, portal, shot, SLOW, step, stopSession, until, further } from "./browser.mjs";
import { newNotebook } from "./notebook.mjs";

const PATIENT = { timeout: 180_000 };
const [start, otherLogin] = further;

await step("log in by the one-time link", logIn);
await step("start a small session", async () => {
  await page.getByTestId("template-jupyterlab").click();
  await page.getByTestId("launch-submit").click();
  await card.getByTestId("session-open").waitFor(PATIENT);
});
const lab = await step("open it", openLab);
const notebook = await step("create a notebook", () => newNotebook(lab));
const { run } = notebook;

const groups = async (state) => {
  const { id } = await newestSession();
  return (await ask(page, `/sessions/${id}/ranks`)).items.filter((group) => group.state === state);
};

await step("a variable of the kernel", () => run("kept = 41; print('kept', kept)", "kept 41"));
await step("attach four ranks on two nodes", async () => {
  await run(`%ranks start ${start}`, "4 ranks are ready", PATIENT);
  const [group] = await until("a group that runs", async () => {
    const running = await groups("RUNNING");
    return running.length > 0 && running;
  });
  expect(group.nodes.length === 2, `they are on ${group.nodes}`);
  await shot(lab, "ranks-attached");
});
await step("the bar of JupyterLab shows them, long before it asks again by itself", async () => {
  await lab.locator("#aitne-bar button.ranks").filter({ hasText: "4 ranks · 2 nodes" }).waitFor({ timeout: 15_000 });
});
await step("the session's card shows them", async () => {
  await page.goto(portal);
  await card.getByText(/4 ranks/).first().waitFor(SLOW);
  await shot(page, "ranks-card");
});
await step("a cell on all ranks, whose state persists", async () => {
  await run("%%distributed\nimport os\nrank = int(os.environ['RANK'])\nprint('the same')\nprint('hello from', rank)\nrank", "hello from 3");
  expect((await notebook.output(notebook.last()).textContent()).includes("[0-3]"), "equal lines are not folded");
  await run("%%distributed -n 1\nrank * 10 + 7", "7");
});
const LOSS = /\[0-3\] 4 ranks, loss ([\d.]+)/;
const TRAINING = `%%distributed
import torch
import aitne_train as hvd
hvd.init()
generator = torch.Generator().manual_seed(rank)
points = torch.randn(256, 2, generator=generator)
labels = (points.sum(1) > 0).long()
model = torch.nn.Linear(2, 2)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters())
for step in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()
print(f'{hvd.size()} ranks, loss', round(hvd.allreduce(loss.detach()).item(), 3))
hvd.shutdown()`;
await step("train, and look at the table of ranks", async () => {
  // Four ranks import PyTorch first.
  const [, loss] = LOSS.exec(await run(TRAINING, LOSS, PATIENT));
  expect(Number(loss) < 0.4, `the loss is ${loss}`);
  await run("%ranks", /node/i);
  await notebook.last().locator("tbody tr").nth(3).evaluate((row) => row.scrollIntoView()); // it is drawn anew
  await shot(lab, "ranks-table");
});
await step("push and pull", async () => {
  await run("%push kept\nprint('pushed')", "pushed");
  await run("%%distributed\ntotal = kept + rank\nprint('added')", "added");
  await run("%pull --all total\nprint('pulled', total)", "pulled [41, 42, 43, 44]");
});
await step("interrupt a cell on all ranks", async () => {
  const cell = await notebook.type("%%distributed\nimport time\nprint('sleeps')\ntime.sleep(600)");
  await notebook.begin(cell);
  await notebook.output(cell).filter({ hasText: "sleeps" }).waitFor(SLOW);
  await lab.keyboard.press("Escape");
  await lab.keyboard.press("i");
  await lab.keyboard.press("i");
  await notebook.output(cell).filter({ hasText: /Interrupt/ }).waitFor(SLOW);
  await shot(lab, "ranks-interrupted");
});
await step("the state of the ranks is still there", () => run("%%distributed\nprint('rank', rank, 'lives')", "rank 3 lives"));
await step("a rank that is killed is named, and the kernel keeps its variables", async () => {
  const said = await run("%%distributed\nimport os, signal, time\nif rank == 2: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(600)", /rank 2/i, PATIENT);
  expect(/SIGKILL|signal 9/.test(said), said);
  await shot(lab, "ranks-killed");
  await run("print('still', kept)", "still 41");
  await until("the group has ended", async () => (await groups("RUNNING")).length === 0, PATIENT);
});
await step("attach again", async () => {
  await run(`%ranks start ${start}`, "4 ranks are ready", PATIENT);
  await run("%%distributed\nprint('fresh', 'rank' in globals())", "fresh False");
});
await step("another user neither reads nor changes them", async () => {
  const session = await newestSession();
  const [group] = await groups("RUNNING");
  const other = await newcomer();
  await other.goto(otherLogin);
  await other.getByTestId("user-menu").waitFor(SLOW);
  for (const path of [`/jobs/${group.id}`, `/sessions/${session.id}/ranks`, `/jobs/${group.id}/logs`]) {
    const status = (await other.request.get(`${portal}/api/v1${path}`)).status();
    expect(status === 404, `${path}: ${status}`);
  }
  const headers = { "X-CSRF-Token": (await ask(other, "/me")).csrf_token, Origin: new URL(portal).origin };
  for (const path of [`/sessions/${session.id}/ranks/release`, `/sessions/${session.id}/ranks/${group.id}/release`, `/jobs/${group.id}/cancel`]) {
    const answer = await other.request.post(`${portal}/api/v1${path}`, { headers, data: {} });
    const { code } = await answer.json();
    expect(code === "not_found", `${path}: ${answer.status()} ${code}`);
  }
  expect((await groups("RUNNING")).length === 1, "the ranks have ended");
  await other.context().close();
});
await step("release them; the variables are there", async () => {
  await run("%ranks stop", "released");
  await until("the group has ended", async () => (await groups("RUNNING")).length === 0, PATIENT);
  await run("print('kept', kept)", "kept 41");
});
await step("the function as a batch job", async () => {
  await run("import aitne\ndef double(x):\n    return 2 * x\nfuture = aitne.submit(double, kept, gpus=0)\nprint('result', future.result())", "result 82", PATIENT);
});
await step("the notebook as a batch job, read on its page", async () => {
  await run(
    "import nbformat.v4 as v4, nbformat\nnbformat.write(v4.new_notebook(metadata={'kernelspec': {'name': 'python3', 'display_name': 'Python 3'}}, cells=[v4.new_code_cell('print(6 * 7)')]), 'report.ipynb')\nprint('written')",
    "written",
  );
  await lab.keyboard.press("Control+s");
  await lab.goto(new URL("tree/report.ipynb", lab.url().replace(/lab.*$/, "lab/")).href);
  await lab.locator(".jp-Notebook:visible .jp-CodeCell .cm-content").filter({ hasText: "print(6 * 7)" }).click();
  await lab.getByRole("button", { name: "Run as batch job" }).click();
  const dialog = lab.getByRole("dialog").filter({ hasText: "report.ipynb" });
  await shot(lab, "notebook-dialog");
  await dialog.getByRole("button", { name: "Run as batch job" }).click();
  await dialog.getByRole("link", { name: "Open job" }).waitFor(SLOW);
  expect((await dialog.getByRole("textbox").count()) === 0, "the fields are still there after the job was submitted");
  const job = await until("the job", async () => (await ask(page, "/jobs?limit=20")).items.find(({ name }) => name.includes("report")), PATIENT);
  await until("its end", async () => (await ask(page, `/jobs/${job.id}`)).state === "COMPLETED", PATIENT);
  await page.goto(`${portal}/jobs/${job.id}?tab=notebook`);
  const printed = page.frameLocator("iframe").locator(".output_area").getByText("42");
  await printed.waitFor(SLOW);
  // A frame of another origin is drawn after the page: its output's own picture waits for that.
  await printed.screenshot();
  await shot(page, "notebook-job");
});
await step("stop the session", async () => {
  await lab.close();
  await page.goto(portal);
  await stopSession();
});

await finish();
