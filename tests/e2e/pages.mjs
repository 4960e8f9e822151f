// The portal's pages: what the pictures, the test of accessibility and the timings look at; `stages` are pictured only. A page of its own is
// one line here, and so is a dialog or a bad day of one. `ids` are those of tests/support/filled.py; `prepare` brings a page to
// what is worth a look; `answers` says what becomes of everything that it asks for (look.mjs); `changes` are fields of single answers,
// for what this platform cannot be; `print` is how it is on paper.
export const WIDTHS = [[1440, 900], [390, 844]];
export const SCHEMES = ["light", "dark"];

const wait = (page) => page.waitForTimeout(400);
/** Press what opens a dialog, and see it open. */
const open = (...names) => async (page) => {
  for (const name of names) await page.getByTestId(name).first().click();
  await page.getByRole("dialog").first().waitFor();
  await wait(page);
};
const opened = async (page) => { await page.getByRole("dialog").first().waitFor(); await wait(page); };
const dialog = (name, path, ...pressed) => ({ name, path, fold: true, prepare: open(...pressed) });
/** The dialog behind a button that has no mark of its own: the button of that number in a marked row. */
const dialogOfRow = (name, path, row, button) => ({
  name, path, fold: true,
  prepare: async (page) => {
    await page.getByTestId(row).first().getByRole("button").nth(button).click();
    await page.getByRole("dialog").first().waitFor();
    await wait(page);
  },
});
/** The dialog behind an entry of a menu, counted from the end where negative. */
const dialogOfMenu = (name, path, menu, entry) => ({
  name, path, fold: true,
  prepare: async (page) => {
    await page.getByTestId(menu).last().click();
    const entries = page.getByRole("menuitem");
    await entries.first().waitFor();
    await wait(page);
    await entries.nth(entry).click();
    await page.getByRole("dialog").first().waitFor();
    await wait(page);
  },
});
/** See a chart, which is loaded after the page. */
const drawn = async (page) => { await page.locator(".uplot canvas").first().waitFor(); await wait(page); };
const menu = (name, path, button) => ({ name, path, fold: true, prepare: async (page) => { await page.getByTestId(button).first().click(); await wait(page); } });
const choose = async (page, many) => { for (let box = 0; box < many; box += 1) await page.getByTestId("job-row").nth(box).getByRole("checkbox").check(); };
const HOUR_MS = 3_600_000;
const inHours = (hours) => new Date(Date.now() + hours * HOUR_MS).toISOString();
/** A job that somebody submitted with sbatch. */
const OUTSIDE = { origin: "outside", scheduler_id: "4711", log_path: "/home/mira/slurm-4711_%a.out", actions: [] };
/** Ranks that are attached to a session: some that train, some that leave their GPUs idle, some that wait. */
const RANKS = (session) => {
  const group = (id, state, fields) => ({
    id, state, type: "job", name: "Ranks of Diffusion notebooks", owner: "root", project: "root", origin: "platform", session_id: session, version: 1,
    array: null, array_job_id: null, array_task_id: null, created_at: inHours(-1), started_at: inHours(-0.9), ended_at: null, expires_at: null, expected_start_at: null,
    gpu_idle_since: null, reason: null, message: null, cancel_requested: false, nodes: [], stages: [], actions: ["cancel"], distributed: { ranks_per_node: 4 },
    resources: { nodes: 2, cpu: 16, memory_bytes: 2 ** 36, gpu: { count: 4, type: "a100" }, gres: {} }, ...fields,
  });
  return [
    group("11111111-0000-4000-8000-000000000001", "RUNNING", { nodes: ["node01", "node02"], expires_at: inHours(1.2) }),
    group("11111111-0000-4000-8000-000000000002", "RUNNING", { nodes: ["node03"], expires_at: inHours(0.4), gpu_idle_since: inHours(-0.7), created_at: inHours(-0.9), resources: { nodes: 1, cpu: 8, memory_bytes: 2 ** 34, gpu: { count: 4, type: "l4" }, gres: {} } }),
    group("11111111-0000-4000-8000-000000000003", "QUEUED", { created_at: inHours(-0.1), started_at: null, message: "Waiting for resources.", expected_start_at: inHours(0.5) }),
  ];
};
const FAILED_RANKS = (session) => [{ ...RANKS(session)[0], state: "FAILED", ended_at: inHours(-0.1), expires_at: null, stages: [{ key: "running", title: "Running", status: "failed", started_at: null, ended_at: null, detail: null }], message: "Rank 3 on node node02 was ended by signal 9 (SIGKILL)." }];
/** Usage of ranks on nodes of eight GPUs; rank 5 is slow. */
const usageOf = (count) => {
  const points = (busy) => Array.from({ length: 40 }, (_, index) => ({ time: inHours(-1 + index / 40), share: Math.max(0, Math.min(1, busy + 0.2 * Math.sin(index / 3 + busy * 40))) }));
  const nodeOf = (rank) => `node${String(Math.floor(rank / 8) + 1).padStart(2, "0")}`;
  const ranks = Array.from({ length: count }, (_, rank) => ({
    rank, node: nodeOf(rank), node_number: Math.floor(rank / 8), gpu: rank % 8, steps: 400, step_s: 0.21, own_s: rank === 5 ? 0.2 : 0.16, communicating: 0.2, blocked: rank === 5 ? 0.02 : 0.15,
    behind_s: rank === 5 ? 0.04 : 0, straggler: rank === 5,
    points: points(rank === 5 ? 0.4 : 0.7 + (rank % 3) / 10).map(({ time, share }) => ({ time, utilization: share, memory_bytes: 2 ** 34 * (0.5 + share / 2) })),
  }));
  const nodes = Array.from({ length: Math.ceil(count / 8) }, (_, number) => ({
    node: nodeOf(number * 8), number, ranks: ranks.filter((rank) => rank.node_number === number).map((rank) => rank.rank), straggler: number === 0, cpus: 32, memory_limit_bytes: 2 ** 37, gpus: 8,
    points: points(0.6).map(({ time, share }) => ({ time, cpu: 32 * share, memory_bytes: 2 ** 36, gpu_utilization: share, gpu_memory_bytes: 2 ** 34 })),
  }));
  return { nodes, ranks };
};
const withRanks = (ids, groups = RANKS) => ({ [`/sessions/${ids.session}/ranks?limit=50`]: { items: groups(ids.session) } });
/** A job as a rank group of the session, with so many ranks. */
const asRanks = (ids, count) => ({
  [`/jobs/${ids.running}`]: { name: "Ranks of Diffusion notebooks", session_id: ids.session, rank_group: { session: ids.session, idle_s: 900, python: null }, distributed: { ranks_per_node: 8, backend: "auto", strategy: "allreduce", compress: "none" } },
  [`/jobs/${ids.running}/metrics/ranks`]: usageOf(count),
});
const numbered = (count, name) => Array.from({ length: count }, (_, number) => name(number));
const nodeName = (number) => `gpu${String(number).padStart(3, "0")}`;
/** A core switch with so many leaves; the names of the nodes alternate between the leaves, as in many machine rooms. */
const switchesOf = (leaves) => [
  { name: "core", parent: null, kind: "switch", source: "topology.conf, line 1" },
  ...numbered(leaves, (leaf) => ({ name: `leaf${leaf}`, parent: "core", kind: "switch", source: `topology.conf, line ${leaf + 2}` })),
];
const topologyOf = (leaves, count) => ({
  switches: switchesOf(leaves),
  nodes: [
    ...numbered(count, (number) => {
      const [mine, used, closed] = [number % 7 === 2, number % 7 < 4, number % 13 === 5];
      const free = used ? number % 3 : closed ? 0 : 4;
      return {
        name: nodeName(number), switch: `leaf${number % leaves}`, source: `topology.conf, line ${(number % leaves) + 2}`, state: closed ? "drained" : used ? "mixed" : "idle", gpus: 4, free_gpus: free, mine, used,
        numa_nodes: number % 2 === 0 ? [{ index: 0, cpus: "0-15,32-47", gpus: [0, 1] }, { index: 1, cpus: "16-31,48-63", gpus: [2, 3] }] : null,
        gpu_links: number % 2 === 0 ? numbered(4, (one) => numbered(4, (other) => (one === other ? null : one >> 1 === other >> 1 ? "NV12" : "SYS"))) : null,
        nics: number % 2 === 0 ? [{ name: "mlx5_0", numa: 0 }, { name: "mlx5_1", numa: 1 }, { name: "eth0", numa: null }] : null,
      };
    }),
    { name: "login", switch: null, source: null, state: "idle", gpus: 0, free_gpus: 0, mine: false, used: false, numa_nodes: null, gpu_links: null, nics: null },
  ],
  sources: [
    { name: "scontrol show topology", origin: "scheduler", read_at: inHours(-0.3), problem: null },
    { name: "topology.conf", origin: "import", read_at: inHours(-30), problem: "topology.conf, line 3: the switch leaf1 differs from its definition in scontrol show topology. Correct one of the two, or use one source only." },
  ],
  unknown_nodes: ["login"],
});
const withTopology = (leaves, count) => ({ "/cluster/topology": topologyOf(leaves, count) });
/** A job on so many nodes, whose order follows the leaves; `kept`: as the scheduler gave it. */
const withPlacement = (ids, leaves, count, kept = false) => {
  const given = numbered(count, nodeName);
  const sorted = numbered(leaves, (leaf) => given.filter((_, number) => number % leaves === leaf)).flat();
  const costs = { before: [count, count / leaves], after: [leaves, 1] };
  const figures = (at) => ({ given: costs.before[at], chosen: costs[kept ? "before" : "after"][at], best: costs.after[at] });
  return {
    [`/jobs/${ids.running}`]: { resources: { nodes: count }, distributed: { ranks_per_node: 4, backend: "auto", strategy: "allreduce", compress: "none" } },
    [`/jobs/${ids.running}/placement`]: {
      given, order: kept ? given : sorted, crossings: figures(0), busiest_uplink: figures(1), switches: switchesOf(leaves).map(({ name, parent }) => ({ name, parent })),
      leaves: Object.fromEntries(given.map((name, number) => [name, `leaf${number % leaves}`])),
      bindings: (kept ? given : sorted).slice(0, 8).flatMap((node, number) => numbered(4, (gpu) => ({ rank: 4 * number + gpu, node, cores: `${8 * gpu}-${8 * gpu + 7}`, numa: gpu >> 1, gpu, nic: `mlx5_${gpu >> 1}` }))).slice(0, count < 8 ? 8 : 32),
      reason: kept ? "The order is that of ~/order.txt." : `Rank order: ${count} -> ${leaves} crossings, busiest uplink ${count / leaves} -> 1.`,
    },
  };
};
/** What a page is like that has nothing, that waits, and that gets no answer. */
const BAD_DAYS = ["empty", "never", "fails"];
const LISTS = { home: "/", jobs: "/jobs", cluster: "/cluster", notifications: "/notifications", project: "/projects/vision?tab=usage", admin: "/admin", "admin-load": "/admin/load" };

export const pages = (ids) => [
  { name: "home", path: "/" },
  { name: "launch", path: "/?launch=jupyterlab", fold: true, prepare: opened },
  { name: "jobs", path: "/jobs?all=true" },
  { name: "no-jobs", path: "/jobs?q=nothing-is-called-that" },
  { name: "job-running", path: `/jobs/${ids.running}` },
  { name: "job-waiting", path: `/jobs/${ids.waiting}` },
  { name: "job-failed", path: `/jobs/${ids.failed}` },
  { name: "job-array", path: `/jobs/${ids.array}?tab=tasks` },
  { name: "job-script", path: `/jobs/${ids.running}?tab=script` },
  { name: "job-history", path: `/jobs/${ids.finished}?tab=history` },
  { name: "session", path: `/jobs/${ids.session}` },
  { name: "cluster", path: "/cluster", prepare: drawn },
  { name: "topology", path: "/cluster?tab=topology" },
  { name: "node", path: "/cluster/nodes/node04" },
  { name: "help", path: "/help#waiting" },
  { name: "images", path: "/images" },
  { name: "datasets", path: "/datasets" },
  { name: "projects", path: "/projects" },
  { name: "project", path: "/projects/vision" },
  { name: "project-report", path: "/projects/vision/report" },
  { name: "compose", path: "/compose" },
  { name: "device", path: "/device" },
  { name: "compare", path: `/compare?runs=${ids.finished},${ids.other}`, prepare: drawn },
  { name: "sweep", path: `/jobs/${ids.sweep}?tab=sweep` },
  { name: "job-metrics", path: `/jobs/${ids.finished}?tab=metrics`, prepare: drawn },
  { name: "job-snapshot", path: `/jobs/${ids.finished}?tab=snapshot` },
  { name: "notifications", path: "/notifications" },
  ...["profile", "security", "sign-ins", "tokens", "secrets", "notifications"].map((tab) => ({ name: `account-${tab}`, path: `/account/${tab}` })),
  { name: "admin", path: "/admin" },
  { name: "admin-load", path: "/admin/load", prepare: drawn },
  ...["jobs", "nodes", "users", "announcements", "catalogue", "audit", "settings"].map((page) => ({ name: `admin-${page}`, path: `/admin/${page}` })),
  { name: "nowhere", path: "/nowhere" },
  {
    name: "palette", path: "/", fold: true,
    prepare: async (page) => {
      await page.locator("main").focus();
      await page.keyboard.press("Control+k");
      await page.getByTestId("palette").fill("e");
      await page.waitForTimeout(900);
    },
  },
  { name: "user-menu", path: "/", fold: true, prepare: async (page) => { await page.getByTestId("user-menu").click(); await wait(page); } },
  { name: "keyboard", path: "/", fold: true, prepare: async (page) => { await page.locator("main").focus(); await page.keyboard.press("?"); await page.getByRole("dialog").waitFor(); await wait(page); } },
  ...["members", "usage", "data", "settings"].map((tab) => ({ name: `project-${tab}`, path: `/projects/vision?tab=${tab}` })),
  { name: "report-printed", path: "/projects/vision/report", print: true },
  { name: "dataset", path: "/datasets/div2k/1" },
  { name: "terminal", path: `/jobs/${ids.running}/terminal`, fold: true, prepare: (page) => page.waitForTimeout(2_500) },
  { name: "tasks-unfolded", path: "/jobs?all=true&q=evaluate", prepare: async (page) => { await page.getByTestId("job-row").first().getByRole("button").click(); await page.waitForTimeout(1_000); } },
  { name: "jobs-chosen", path: "/jobs?all=true", prepare: async (page) => { for (const box of [0, 1]) await page.getByTestId("job-row").nth(box).getByRole("checkbox").check(); } },
  dialog("rerun", `/jobs/${ids.finished}`, "job-resubmit"),
  dialog("cancel", `/jobs/${ids.waiting}`, "job-cancel"),
  dialog("new-project", "/projects", "project-new"),
  dialog("invite", "/projects/vision?tab=members", "invite"),
  dialog("new-token", "/account/tokens", "token-new"),
  dialog("new-secret", "/account/secrets", "secret-new"),
  dialog("new-user", "/admin/users", "user-new"),
  dialog("user", "/admin/users", "user-manage"),
  dialog("new-announcement", "/admin/announcements", "announcement-new"),
  dialog("new-maintenance", "/admin/announcements", "maintenance-set"),
  dialog("jobs-views", "/jobs?all=true", "jobs-views"),
  { name: "bell", path: "/", fold: true, prepare: async (page) => { await page.getByTestId("bell").click(); await wait(page); } },
  { name: "login", path: "/login", anybody: true },
  { name: "login-refused", path: "/login?failed=no_account", anybody: true },
  { name: "invited", path: ids.invitation, anybody: true },
  { name: "reset", path: ids.reset, anybody: true },
  { name: "reset-without-link", path: "/reset", anybody: true },
  ...Object.entries(LISTS).flatMap(([name, path]) => BAD_DAYS.map((answers) => ({ name: `${name}-${answers}`, path, answers }))),
  ...["never", "fails"].map((answers) => ({ name: `topology-${answers}`, path: "/cluster?tab=topology", answers })),
  { name: "not-loaded", path: "/", anybody: true, answers: "no files", prepare: (page) => page.getByText("reload the page").waitFor() },
  { name: "stale", path: "/", fold: true, answers: "no news", prepare: (page) => page.getByTestId("stale-banner").waitFor() },
];

/** Further dialogs and states, of which pictures are made; the test of accessibility leaves them out, for its time. */
export const stages = (ids) => [
  { name: "job-outside", path: `/jobs/${ids.array}?tab=history`, changes: { [`/jobs/${ids.array}`]: OUTSIDE } },
  { name: "job-outside-log", path: `/jobs/${ids.array}`, changes: { [`/jobs/${ids.array}`]: OUTSIDE } },
  { name: "job-repo", path: `/jobs/${ids.repo}` },
  { name: "job-tree", path: `/jobs/${ids.tree}?tab=snapshot` },
  { name: "job-array-history", path: `/jobs/${ids.array}?tab=history` },
  { name: "cluster-week", path: "/cluster", prepare: async (page) => { await page.getByTestId("load").getByRole("radiogroup").locator("label").nth(1).click(); await drawn(page); } },
  { name: "cluster-drains", path: "/admin/nodes", changes: { "/me": { platform: { can_drain: true } } } },
  { ...dialog("drain", "/admin/nodes", "node-drain"), changes: { "/me": { platform: { can_drain: true } } } },
  { name: "impersonated", path: "/jobs", changes: { "/me": { impersonation: { impersonator: "root", until: inHours(1) } } } },
  { name: "maintenance", path: "/", fold: true, changes: { "/maintenance": { phase: "scheduled", starts_at: inHours(20), ends_at: inHours(24), message: "New switches" } } },
  dialog("stop-session", `/jobs/${ids.session}`, "session-stop"),
  { name: "session-ranks", path: `/jobs/${ids.session}`, changes: withRanks(ids) },
  { name: "session-ranks-failed", path: `/jobs/${ids.session}`, changes: withRanks(ids, FAILED_RANKS) },
  { name: "home-ranks", path: "/", changes: withRanks(ids) },
  dialog("attach-ranks", `/jobs/${ids.session}`, "ranks-attach"),
  { ...dialog("release-ranks", `/jobs/${ids.session}`, "ranks-release"), changes: withRanks(ids) },
  { name: "session-no-ranks", path: `/jobs/${ids.session}?tab=ranks` },
  { name: "ranks-of-session", path: `/jobs/${ids.running}?tab=ranks`, changes: asRanks(ids, 16) },
  { name: "ranks-table", path: `/jobs/${ids.running}?tab=ranks`, changes: asRanks(ids, 16), prepare: async (page) => { await page.getByTestId("rank-metrics").locator("summary").click(); await wait(page); } },
  { name: "ranks-heat-map", path: `/jobs/${ids.running}?tab=ranks`, changes: asRanks(ids, 256) },
  { name: "topology-none", path: "/cluster?tab=topology", changes: { "/cluster/topology": { switches: [], nodes: [], sources: [], unknown_nodes: [] } } },
  { name: "topology-small", path: "/cluster?tab=topology", changes: withTopology(3, 24) },
  { name: "topology-large", path: "/cluster?tab=topology", changes: withTopology(32, 1_000) },
  { name: "topology-unfolded", path: "/cluster?tab=topology", fold: true, changes: withTopology(32, 1_000), prepare: async (page) => { await page.getByTestId("topology-unfold").click(); await wait(page); } },
  { name: "topology-table", path: "/cluster?tab=topology", changes: withTopology(3, 24), prepare: async (page) => { await page.getByTestId("topology-values").locator("summary").click(); await wait(page); } },
  { name: "topology-node-known", path: "/cluster?tab=topology", fold: true, changes: withTopology(2, 4), prepare: async (page) => { await page.getByTestId("topology-node").first().click(); await opened(page); } },
  {
    name: "topology-node-unknown", path: "/cluster?tab=topology", fold: true, changes: withTopology(2, 4),
    prepare: async (page) => {
      await page.getByRole("treeitem").first().focus();
      // To the last node, and back to its leaf and the one before.
      for (const key of ["End", "ArrowLeft", "ArrowLeft", "ArrowUp", "ArrowUp", "Enter"]) await page.keyboard.press(key);
      await opened(page);
    },
  },
  { name: "job-placement", path: `/jobs/${ids.running}?tab=placement`, changes: withPlacement(ids, 2, 8) },
  { name: "job-placement-given", path: `/jobs/${ids.running}?tab=placement`, changes: withPlacement(ids, 2, 8), prepare: async (page) => { await page.getByTestId("placement").getByRole("radiogroup").locator("label").first().click(); await page.getByTestId("placement-values").locator("summary").click(); await wait(page); } },
  { name: "job-placement-kept", path: `/jobs/${ids.running}?tab=placement`, changes: withPlacement(ids, 2, 8, true), prepare: async (page) => { await page.getByTestId("placement").getByRole("radiogroup").locator("label").last().click(); await wait(page); } },
  { name: "job-placement-large", path: `/jobs/${ids.running}?tab=placement`, changes: withPlacement(ids, 32, 512) },
  {
    name: "compose-placement", path: "/compose",
    changes: { "/jobs:plan": { placement: {
      nodes: numbered(8, nodeName), leaves: [{ name: "leaf0", nodes: 4 }, { name: "leaf1", nodes: 4 }], order: [0, 2, 4, 6, 1, 3, 5, 7].map(nodeName), crossings: { given: 8, chosen: 2 }, busiest_uplink: { given: 4, chosen: 1 },
      score: 4.2, max_leaves: 2, max_leaves_wait_s: 600, reason: "2 leaves below core hold the job.", alternatives: [{ leaves: [{ name: "leaf2", nodes: 8 }], wait_s: 900, score: 15 }], changes: [],
    } } },
    prepare: async (page) => { await page.getByTestId("compose-command-0").fill("python train.py"); await page.getByTestId("plan-placement").waitFor(); await wait(page); },
  },
  { name: "admin-idle-gpus", path: "/admin", changes: { "/admin/idle-gpus": { items: RANKS(ids.session).slice(1, 2) } } },
  menu("extend-session", `/jobs/${ids.session}`, "session-extend"),
  dialog("delete-job", `/jobs/${ids.finished}`, "job-delete"),
  dialog("array-limit", `/jobs/${ids.array}`, "array-limit-change"),
  dialog("stop-sweep", `/jobs/${ids.sweeping}`, "sweep-stop"),
  { name: "delete-jobs", path: "/jobs?all=true&state=completed", fold: true, prepare: async (page) => { await choose(page, 3); await open("jobs-delete")(page); } },
  { name: "cancel-jobs", path: "/jobs?all=true&state=running", fold: true, prepare: async (page) => { await choose(page, 2); await open("jobs-cancel")(page); } },
  menu("jobs-columns", "/jobs?all=true", "jobs-columns"),
  { name: "launch-training", path: "/?launch=python-train", fold: true, prepare: opened },
  { name: "launch-advanced", path: "/?launch=jupyterlab", prepare: async (page) => { await page.getByTestId("launch-advanced").click(); await wait(page); } },
  dialog("save-preset", "/?launch=jupyterlab", "launch-save"),
  dialog("add-member", "/projects/vision?tab=members", "member-add"),
  dialogOfMenu("member-limits", "/projects/vision?tab=members", "member-menu", 1),
  dialogOfMenu("remove-member", "/projects/vision?tab=members", "member-menu", -1),
  { name: "invited-link", path: "/projects/vision?tab=members", fold: true, prepare: async (page) => { await open("invite", "invite-make")(page); await page.getByTestId("invite-link").waitFor(); } },
  dialog("close-project", "/projects/vision?tab=settings", "close"),
  dialog("approve-project", "/projects", "approve"),
  dialog("decline-project", "/projects", "decline"),
  { name: "project-ending", path: "/projects/speech" },
  dialog("extend-project", "/projects/speech", "more-time"),
  { name: "token-made", path: "/account/tokens", fold: true, prepare: async (page) => { await open("token-new")(page); await page.getByTestId("token-name").fill("workstation"); await page.getByTestId("token-create").click(); await page.getByTestId("token-secret").waitFor(); } },
  ...[["confirm-link", "admin"], ["confirm-none", "user"]].map(([name, role]) => ({
    name, path: "/account/tokens", fold: true, refused: true,
    changes: { "/account": { has_password: false, source: "password", role, second_factor: { enabled: false } } },
    prepare: async (page) => {
      const refusal = { status: 403, contentType: "application/problem+json", body: JSON.stringify({ status: 403, code: "reauthentication_required", title: "", detail: "" }) };
      await page.route("**/api/v1/tokens", (route) => (route.request().method() === "POST" ? route.fulfill(refusal) : route.fallback()));
      await open("token-new")(page);
      await page.getByTestId("token-name").fill("workstation");
      await page.getByTestId("token-create").click();
      await page.getByText("aitne open --print").or(page.getByText("aitne admin user reset-link")).waitFor();
      await wait(page);
    },
  })),
  { name: "compare-wrong", path: "/compare?runs=1a2b3c4d,x" },
  { name: "compose-broken", path: "/compose", prepare: async (page) => { await page.getByRole("textbox", { name: "Job file" }).or(page.locator(".cm-content")).first().click(); await page.keyboard.type("name: a\ncommands\ncpu: 1"); await wait(page); } },
  dialogOfRow("revoke-token", "/account/tokens", "token-row", 0),
  dialogOfRow("replace-secret", "/account/secrets", "secret-row", 0),
  dialogOfRow("delete-secret", "/account/secrets", "secret-row", 1),
  dialog("second-factor", "/account/security", "factor-begin"),
  dialog("users-to-project", "/admin/users", "user-select-all", "users-add"),
  dialog("disable-users", "/admin/users", "user-select-all", "users-disable"),
  { name: "impersonate", path: "/admin/users", fold: true, prepare: async (page) => { await page.getByTestId("user-manage").nth(1).click(); await page.getByTestId("user-impersonate").click(); await page.getByTestId("confirm-yes").waitFor(); await wait(page); } },
  { name: "reset-link", path: "/admin/users", fold: true, prepare: async (page) => { await page.getByTestId("user-manage").nth(1).click(); await page.getByTestId("user-reset").click(); await page.waitForTimeout(900); } },
  dialogOfRow("edit-announcement", "/admin/announcements", "announcement-row", 0),
  dialogOfRow("delete-announcement", "/admin/announcements", "announcement-row", 1),
  { name: "audit-entry", path: "/admin/audit", fold: true, prepare: async (page) => { await page.getByTestId("audit-row").first().getByRole("button").click(); await page.getByRole("dialog").waitFor(); await wait(page); } },
  { name: "audit-verified", path: "/admin/audit", fold: true, prepare: async (page) => { await page.getByTestId("audit-verify").click(); await page.getByRole("alert").first().waitFor(); } },
  { name: "settings-all", path: "/admin/settings", prepare: async (page) => { await page.getByRole("switch").first().click(); await wait(page); } },
  { name: "image", path: "/images/pytorch/2.9" },
  dialog("image-visibility", "/images/pytorch/2.9", "image-projects"),
  { name: "webhook", path: "/account/notifications", prepare: async (page) => { if ((await page.getByTestId("webhook").count()) === 0) { await page.getByTestId("webhook-url").fill("https://93.184.216.34/aitne"); await page.getByTestId("webhook-add").click(); await page.getByTestId("webhook-secret").waitFor(); } await wait(page); } },
];
